// Signatures: which of many blocks of texts cannot have a part, told without reading them.
// A piece of two, three, four or six characters of any text of a block sets bits at places that its hash says. A part is in no block without its bits.

/** Places of a signature: a fifth of them are set where a block has 256 ordinary records. */
const places = 65_536;
/** Records whose texts make a block. */
export const recordsOfBlock = 256;
/** Blocks that share a signature, each with a bit of its own in every word. */
export const blocksOfSignature = 32;
/** Places that a search looks at; further ones exclude little more. */
const mostPlaces = 4;

/** Words of 32 bits, all unset. */
export function emptySignature(): Uint32Array {
  return new Uint32Array(places);
}

/** Sets the bits of a block. @param at which of the blocks that share the signature */
export function markTexts(words: Uint32Array, at: number, texts: readonly string[]): void {
  const bit = 1 << at;
  for (const text of texts) {
    for (let index = 0; index + 1 < text.length; index += 1) {
      // One hash after the other, each from the one before: this is done for every character of a workspace.
      let first = startA;
      let second = startB;
      const end = Math.min(text.length, index + longest);
      for (let next = index; next < end; next += 1) {
        const character = text.charCodeAt(next);
        first = step(first, character);
        second = step(second, character);
        const length = next - index + 1;
        if (length > 1 && length !== 5) mark(words, placeOf(first, length), bit);
        if (length === 2 || length === 3) mark(words, placeOf(second, length), bit);
      }
    }
  }
}

/** Characters of a piece, at most. */
const longest = 6;
/** What hashes begin with. Pieces of two and three have two places each: a part as short as they are has no further piece to look for. */
const startA = 0x811c9dc5;
const startB = 0x9e3779b9;

function mark(words: Uint32Array, place: number, bit: number): void {
  words[place] = (words[place] as number) | bit;
}

function step(hash: number, character: number): number {
  return Math.imul(hash ^ character, 0x01000193);
}

function placeOf(hash: number, length: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 15) ^ length, 0x2c1b3c6d);
  return (mixed ^ (mixed >>> 13)) & (places - 1);
}

/** Places whose bits a block has where one of its texts has the part. @param part at least two characters, in lower case */
export function placesOf(part: string): number[] {
  if (part.length < 4) return [startA, startB].map((seed) => placeOfPiece(part, seed));
  // The longer a piece, the fewer blocks have it.
  return [longest, 4]
    .flatMap((length) => piecesOf(part, length).map((piece) => placeOfPiece(piece, startA)))
    .slice(0, mostPlaces);
}

/** Evenly over the part, its first and last piece among them. */
function piecesOf(part: string, length: number): string[] {
  const all = Math.max(0, part.length - length + 1);
  const asked = Math.min(all, mostPlaces);
  return Array.from({ length: asked }, (_, index) => {
    const start = Math.round((index * (all - 1)) / Math.max(1, asked - 1));
    return part.slice(start, start + length);
  });
}

function placeOfPiece(piece: string, seed: number): number {
  let hash = seed;
  for (let index = 0; index < piece.length; index += 1) hash = step(hash, piece.charCodeAt(index));
  return placeOf(hash, piece.length);
}

/** The blocks that have the bits of all places. @param words one for each place, of the signature of `number` */
export function blocksWith(words: readonly number[], number: number): number[] {
  const bits = words.reduce((all, word) => all & word, -1);
  return Array.from({ length: blocksOfSignature }, (_, at) => at).flatMap((at) =>
    bits & (1 << at) ? number * blocksOfSignature + at : [],
  );
}
