// Logos of workspaces, which their pages show.
import type { Fragment } from 'postgres';
import type { Sql } from '../client/pool.ts';

/** What a page needs to show a logo. */
export interface Logo {
  /** The beginning of the SHA-256 of the image, in hexadecimal. */
  hash: string;
  /** In pixels. */
  width: number;
  height: number;
}

/** How a workspace looks on pages. */
export interface Brand {
  companyId: string;
  companyName: string;
  logo: Logo | null;
}

export interface LogoImage extends Logo {
  contentType: string;
  image: Buffer;
}

/** Returns an expression for the logo of a company; null without one. */
export const selectLogo = (sql: Sql, companyId: string): Fragment => sql`(
  select json_build_object('hash', hash, 'width', width, 'height', height) from company_logos where company_id = ${companyId}
)`;

/** Returns undefined if there is no such company. */
export async function findBrand(sql: Sql, companyId: string): Promise<Brand | undefined> {
  const [row] = await sql<Brand[]>`
    select id as company_id, name as company_name, ${selectLogo(sql, companyId)} as logo
    from companies where id = ${companyId}`;
  return row;
}

/** Returns the current logo; undefined if the hash is that of another image. */
export async function findLogoImage(
  sql: Sql,
  companyId: string,
  hash: string,
): Promise<Pick<LogoImage, 'contentType' | 'image'> | undefined> {
  const [row] = await sql<Pick<LogoImage, 'contentType' | 'image'>[]>`
    select content_type, image from company_logos where company_id = ${companyId} and hash = ${hash}`;
  return row;
}

export async function storeLogo(sql: Sql, companyId: string, logo: LogoImage): Promise<void> {
  const { hash, contentType, width, height, image } = logo;
  await sql`
    insert into company_logos (company_id, hash, content_type, width, height, image)
    values (${companyId}, ${hash}, ${contentType}, ${width}, ${height}, ${image})
    on conflict (company_id) do update
    set hash = excluded.hash, content_type = excluded.content_type, width = excluded.width, height = excluded.height,
      image = excluded.image`;
}

/** @returns false if there is none */
export async function deleteLogo(sql: Sql, companyId: string): Promise<boolean> {
  const deleted = await sql`delete from company_logos where company_id = ${companyId}`;
  return deleted.count === 1;
}
