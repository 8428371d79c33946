// Invents the companies and people of the demo workspace, without duplicates.
import type { Random } from './random.ts';
import {
  type City,
  type Country,
  companyWords,
  countries,
  countryWeights,
  jobTitles,
  type NumberRange,
  sectors,
} from './words.ts';

export interface Company {
  name: string;
  domain: string;
  industry: string;
  employees: number;
  country: Country;
  place: City;
  address: string;
  landline: string;
}

export interface Person {
  company: Company;
  firstName: string;
  lastName: string;
  email: string;
  mobile: string;
  jobTitle: string;
}

export class Directory {
  readonly #random: Random;
  readonly #taken = new Set<string>();
  readonly #numbersUsed = new Map<readonly NumberRange[], number>();

  constructor(random: Random) {
    this.#random = random;
  }

  newCompany(): Company {
    const random = this.#random;
    const code = random.weighted(countryWeights);
    const country = countries.find((each) => each.code === code) as Country;
    const place = random.pick(country.places);
    const { sector, name } = this.#newCompanyName();
    return {
      name: `${name} ${country.legalForm}`,
      domain: `${toPlainText(name, '-')}.example`,
      industry: sector.industry,
      employees: random.int(...sector.employees),
      country,
      place,
      address:
        country.code === 'DE' || country.code === 'SE'
          ? `${random.pick(country.streets)} ${random.int(1, 120)}`
          : `${random.int(1, 120)} ${random.pick(country.streets)}`,
      landline: this.#newNumber(place.landlines),
    };
  }

  newPerson(company: Company): Person {
    const random = this.#random;
    const { country } = company;
    for (;;) {
      const firstName = random.pick(country.firstNames);
      const lastName = random.pick(country.lastNames);
      const email = `${toPlainText(firstName, '')}.${toPlainText(lastName, '')}@${company.domain}`;
      if (this.#taken.has(email)) continue;
      this.#taken.add(email);
      return {
        company,
        firstName,
        lastName,
        email,
        mobile: this.#newNumber(country.mobiles),
        jobTitle: random.pick(jobTitles),
      };
    }
  }

  #newCompanyName(): { sector: (typeof sectors)[number]; name: string } {
    for (;;) {
      const sector = this.#random.pick(sectors);
      const name = `${this.#random.pick(companyWords)} ${this.#random.pick(sector.names)}`;
      if (this.#taken.has(name)) continue;
      this.#taken.add(name);
      return { sector, name };
    }
  }

  /** Cycles through the ranges, so that a number repeats only after all others. */
  #newNumber(ranges: readonly NumberRange[]): string {
    const used = this.#numbersUsed.get(ranges) ?? 0;
    this.#numbersUsed.set(ranges, used + 1);
    const { prefix, digits, first = 0 } = ranges[used % ranges.length] as NumberRange;
    const size = 10 ** digits - first;
    // 37 shares no divisor with any size here, so every number of the range comes up once.
    const last = first + ((Math.floor(used / ranges.length) * 37 + 11) % size);
    return prefix + String(last).padStart(digits, '0');
  }
}

/** Returns lower-case ASCII letters and digits, for addresses. */
function toPlainText(text: string, separator: string): string {
  return text
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, separator);
}
