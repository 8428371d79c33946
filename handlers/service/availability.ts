// The availability of modules by country.
import { availability, availabilityUpdatedAt } from '../../domain/service/availability.ts';
import type { Handler } from '../../runtime/handler.ts';

export const getAvailability: Handler<'getAvailability'> = async (call) => {
  const country = call.request.query.country?.toUpperCase();
  const wanted = call.request.query.module;
  const countries = availability
    .filter((each) => country === undefined || each.code === country)
    .map((each) => ({
      country_code: each.code,
      country_name: each.name,
      region: each.region,
      modules: each.modules
        .filter(({ module }) => wanted === undefined || module === wanted)
        .map(({ module, label, status, note }) => ({
          module,
          label,
          available: status !== 'unavailable',
          status,
          note,
        })),
    }));
  return { status: 200, data: { countries, updated_at: availabilityUpdatedAt } };
};
