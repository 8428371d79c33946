// The workspace: its name, its time zone and its logo, which its pages show.
import { deleteLogo, storeLogo } from '../../db/access/logos.ts';
import { logoLimits, readImage } from '../../domain/access/logo-images.ts';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { buildProblem, notFound, validationFailed } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { getTimeZone } from '../../runtime/pages/time-zone.ts';
import { logoImage, toBrand } from '../pages/brand.ts';
import { doneMessage, factList } from '../pages/components.ts';
import { errorSummary, field, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { act, buildAddress, type PersonalRequest, type Show, toLiveMode } from '../pages/requests.ts';

const home = '/console/workspace';
const doneMessages = {
  logo: 'The logo is changed. Pages show it from now on.',
  removed: 'The logo is removed. Pages show the name of the workspace only.',
};
const change = 'settings:configure';
const kilobytes = logoLimits.bytes / 1024;
/** The file of the form. */
export const logoUpload = { field: 'logo', bytes: logoLimits.bytes, scope: change };

export const showWorkspace: Show = async (parts, request) => {
  await act(parts, toLiveMode(request), ['settings:view'], async ({ authorize }) => authorize('settings:view'));
  return workspacePage(request, 200);
};

function workspacePage(request: PersonalRequest, status: number, typed: Typed = {}): PageResponse {
  const { person } = request;
  const mayChange = person.caller.grants.allows(change);
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${factList({
  Name: isolateText(person.caller.companyName),
  'Time zone': getTimeZone(),
  Logo: logoImage(toBrand(person)) ?? 'none',
})}
<p class="note">The console shows all times in this time zone. Pages for your customers, such as the page to unsubscribe from emails, show the name and the logo.</p>
${mayChange ? changeForms(request, typed) : null}`;
  return consolePage(request, status, 'Name and logo', body);
}

function changeForms(request: PersonalRequest, typed: Typed): Html {
  const upload = html`${field('logo', 'Image', typed, {
    type: 'file',
    accept: 'image/png,image/jpeg,image/webp,image/gif',
    hint: `A PNG, JPEG, WebP or GIF file of at most ${kilobytes} KB. It is shown at most 40 pixels high, on white.`,
  })}<button>Save</button>`;
  const remove = html`<input type="hidden" name="action" value="remove"><button class="danger">Remove logo</button>`;
  return html`<h2>${request.person.logo ? 'Replace the logo' : 'Add a logo'}</h2>
${form(request, home, upload, 'upload')}
${request.person.logo ? form(request, `${home}/remove-logo`, remove) : null}`;
}

export const changeLogo: Show = (parts, request) =>
  submitOrShowAgain(
    async () => {
      const image = await readLogo(request);
      await act(parts, toLiveMode(request), [change], async ({ caller, authorize, db: { sql, record } }) => {
        authorize(change);
        await storeLogo(sql, caller.companyId, image);
        const { hash, contentType } = image;
        const metadata = { hash, content_type: contentType, bytes: image.image.length };
        record({ action: 'company.update_logo', object: 'companies', recordId: caller.companyId, metadata });
      });
      return { redirect: buildAddress(home, request.testMode, { done: 'logo' }) };
    },
    async (refused) => workspacePage(request, refused.status, { form: request.form, refused }),
  );

/** @throws ApiError 400 if the uploaded file is no image that can be a logo */
async function readLogo({ file, refused }: PersonalRequest) {
  const reject = (code: 'REQUIRED' | 'TOO_LONG' | 'OUT_OF_RANGE' | 'INVALID_FORMAT', message: string) =>
    validationFailed([buildProblem('logo', code, message)], 400);
  if (refused?.details?.reason === 'file_too_large')
    throw reject('TOO_LONG', `The file must have at most ${kilobytes} KB.`);
  if (refused || !file) throw refused ?? reject('REQUIRED', 'Choose a file.');
  const image = await file.readHead(logoLimits.bytes);
  const facts = readImage(image);
  if (!facts) throw reject('INVALID_FORMAT', 'The file is not a PNG, JPEG, WebP or GIF image.');
  if (Math.max(facts.width, facts.height) > logoLimits.pixels)
    throw reject('OUT_OF_RANGE', `The image must have at most ${logoLimits.pixels} pixels in each direction.`);
  return { ...facts, image, hash: sha256(image).toString('hex').slice(0, 32) };
}

export const removeLogo: Show = async (parts, request) => {
  await act(parts, toLiveMode(request), [change], async ({ caller, authorize, db: { sql, record } }) => {
    authorize(change);
    if (!(await deleteLogo(sql, caller.companyId))) throw notFound();
    record({ action: 'company.delete_logo', object: 'companies', recordId: caller.companyId });
  });
  return { redirect: buildAddress(home, request.testMode, { done: 'removed' }) };
};
