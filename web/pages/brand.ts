// The look of a workspace on its pages: its name and its logo.
import type { Brand, Logo } from '../../db/access/logos.ts';
import type { Person } from '../../runtime/credentials/people.ts';
import type { PageAnswer } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText, page } from '../../runtime/pages/html.ts';

/** The address contains a digest of the image, so that browsers can keep it forever. */
const buildLogoPath = (companyId: string, { hash }: Logo): string => `/logos/${companyId}/${hash}`;

/** Returns the brand of the workspace of a signed-in person. */
export const toBrand = ({ caller, logo }: Person): Brand => ({
  companyId: caller.companyId,
  companyName: caller.companyName,
  logo,
});

/** Builds the image. Its size is known in advance, so that the page does not move when it loads. */
export function logoImage({ companyId, logo }: Brand): Html | null {
  if (!logo) return null;
  // The style sheet limits the size to this height and width in pixels.
  const scale = Math.min(40 / logo.height, 160 / logo.width, 1);
  const [width, height] = [logo.width, logo.height].map((size) => Math.max(1, Math.round(size * scale)));
  return html`<img class="logo" src="${buildLogoPath(companyId, logo)}" alt="" width="${width ?? 1}" height="${height ?? 1}">`;
}

/**
 * Builds a page for people outside of the console, with the name and the logo of the workspace.
 * @param brand undefined if the workspace is unknown
 */
export function renderBrandedPage(
  status: number,
  title: string | Html,
  body: Html,
  brand: Brand | undefined,
): Pick<PageAnswer, 'status' | 'html' | 'hasImages'> {
  if (!brand) return { status, html: page(title, body) };
  const before = html`<header class="workspace">${logoImage(brand)}<p>${isolateText(brand.companyName)}</p></header>`;
  return { status, html: page(title, body, { before }), ...(brand.logo ? { hasImages: true as const } : {}) };
}
