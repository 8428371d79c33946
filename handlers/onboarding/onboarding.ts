// Creates workspaces: public signup, and the same for the platform.
import { v7 as uuidv7 } from 'uuid';
import { createCompany, signInExists } from '../../db/onboarding/onboarding.ts';
import { trialDays } from '../../domain/billing/catalogue.ts';
import {
  activityTypes,
  dealStatuses,
  leadStatuses,
  pipelineName,
  regions,
  sources,
  taskTypes,
} from '../../domain/onboarding/defaults.ts';
import { buildStandardPolicy } from '../../domain/scheduling/policies.ts';
import { isCurrency, isTimezone } from '../../domain/service/zones-and-currencies.ts';
import { generatePassword, hashPassword } from '../../runtime/credentials/passwords.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { Call, Handler, Result } from '../../runtime/handler.ts';

const dayMilliseconds = 86_400_000;

/** The same error for every reason, so that it does not reveal who has an account. */
const rejection = () => new ApiError('VALIDATION_ERROR', 'The signup request could not be accepted.');

export const createOnboarding: Handler<'createOnboarding'> = (call) => onboard(call);

export const createOnboardingAsPlatform: Handler<'createOnboardingAsPlatform'> = (call) => onboard(call);

async function onboard(
  call: Call<'createOnboarding'> | Call<'createOnboardingAsPlatform'>,
): Promise<Result<'createOnboarding'>> {
  const { now } = call;
  const { body } = call.request;
  // Hashing is most of the work, so every request does it, even if it is rejected.
  const given = call.request.problems.length === 0 ? body.admin_user.password : undefined;
  const password = given ?? generatePassword();
  const passwordHash = await call.db.withoutConnection(hashPassword(password));
  if (call.request.problems.length > 0 || !isKnownPlace(body.company)) throw rejection();

  const company = {
    id: uuidv7(),
    name: body.company.name,
    email: body.company.email,
    phone: body.company.phone ?? null,
    website: body.company.website ?? null,
    address: body.company.address ?? null,
    city: body.company.city ?? null,
    state: body.company.state ?? null,
    country: body.company.country ?? null,
    postalCode: body.company.postal_code ?? null,
    region: body.region,
    industry: body.industry,
    timezone: body.company.timezone ?? regions[body.region].timezone,
    currency: body.company.currency ?? regions[body.region].currency,
  };
  const admin = {
    id: uuidv7(),
    email: body.admin_user.email.toLowerCase(),
    fullName: body.admin_user.full_name,
    passwordHash,
    mustChangePassword: given === undefined,
    metadata: body.metadata ?? {},
    isWelcomed: body.send_welcome_email,
  };
  const trial = { packageCode: 'growth', endsAt: new Date(now.getTime() + trialDays * dayMilliseconds) };
  const created = await createCompany(
    call.db.sql,
    company,
    admin,
    {
      pipelineName,
      dealStatuses,
      leadStatuses,
      activityTypes,
      taskTypes,
      sources,
      trial,
      policy: buildStandardPolicy(company.timezone),
    },
    now,
  );
  if (!created) throw rejection();

  call.db.record({
    action: 'company.onboard',
    companyId: company.id,
    object: 'companies',
    recordId: company.id,
    metadata: { region: body.region, industry: body.industry },
  });
  return {
    status: 201,
    data: {
      company: {
        id: company.id,
        name: company.name,
        email: company.email,
        status: 'active',
        region: body.region,
        country: company.country,
        timezone: company.timezone,
        currency: company.currency,
        created_at: now.toISOString(),
      },
      branch: { id: created.branchId, name: 'Main Branch' },
      user: {
        id: admin.id,
        email: admin.email,
        full_name: admin.fullName,
        role: 'Company_Admin',
        must_change_password: admin.mustChangePassword,
      },
      ...(given === undefined ? { temp_password: password } : {}),
      welcome_email_sent: body.send_welcome_email && call.services.sendsMail,
      subscription: { status: 'trialing', package_code: 'growth', trial_ends_at: trial.endsAt.toISOString() },
      defaults: {
        deal_statuses: dealStatuses.length,
        lead_statuses: leadStatuses.length,
        activity_types: activityTypes.length,
        sources: sources.length,
      },
    },
  };
}

function isKnownPlace(company: { timezone?: string | undefined; currency?: string | undefined }): boolean {
  return (
    (company.timezone === undefined || isTimezone(company.timezone)) &&
    (company.currency === undefined || isCurrency(company.currency))
  );
}

export const checkEmail: Handler<'checkEmail'> = async (call) => {
  const email = call.request.body.email.toLowerCase();
  const exists = await signInExists(call.db.sql, email);
  return { status: 200, exists, data: { email: call.request.body.email, exists } };
};
