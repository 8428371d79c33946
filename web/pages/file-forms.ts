// Reads forms with files, which browsers send as multipart/form-data.
import type { PageRequest } from '../../runtime/http/page-routes.ts';

/**
 * Returns the request with the text fields and the files of its form. An unreadable form has no
 * fields, so that the check of its token rejects it.
 */
export async function readFileForm(
  request: PageRequest,
): Promise<PageRequest & { files?: ReadonlyMap<string, Buffer> }> {
  const { body, headers } = request;
  const type = headers['content-type'] ?? '';
  if (!body || !/^multipart\/form-data\s*;/i.test(type)) return request;
  const form = new URLSearchParams();
  const files = new Map<string, Buffer>();
  try {
    const sent = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
    for (const [name, value] of sent) {
      if (typeof value !== 'string') files.set(name, Buffer.from(await value.arrayBuffer()));
      else if (!value.includes('\0')) form.append(name, value);
    }
  } catch {
    return { ...request, form: new URLSearchParams() };
  }
  return { ...request, form, files };
}
