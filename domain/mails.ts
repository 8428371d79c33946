// What mails say. A mail never carries a password: whoever created the user was shown it.

export interface MailText {
  subject: string;
  text: string;
}

type Template = (data: Readonly<Record<string, string>>, signInAt: string) => MailText;

const templates: Readonly<Record<string, Template>> = {
  welcome: (data, signInAt) => {
    const company = plainName(data.company_name ?? '');
    return {
      subject: `Welcome to ${company}`,
      text: [
        `Hello ${plainName(data.full_name ?? '')},`,
        '',
        `you can now work in the CRM of ${company}. Sign in with this email address at`,
        signInAt,
        '',
        'The password is not in this mail: it is the one that you chose, or the one that your administrator gives you.',
        '',
      ].join('\n'),
    };
  },
};

/**
 * Writes a mail.
 * @param signInAt the address of the web app
 * @returns undefined for a template that this version does not know
 */
export function composeMail(
  template: string,
  data: Readonly<Record<string, string>>,
  signInAt: string,
): MailText | undefined {
  return Object.hasOwn(templates, template) ? templates[template]?.(data, signInAt) : undefined;
}

const longestName = 100;

/**
 * A name as it may stand in a mail: one line, no address of a page or a person, not long. Anybody may sign up, so a name must
 * not become a message of somebody else's in a mail of ours.
 */
function plainName(name: string): string {
  return name
    .replace(/[^\p{L}\p{M}\p{N} '’&(),-]+/gu, ' ')
    .replace(/ +/g, ' ')
    .trim()
    .slice(0, longestName);
}
