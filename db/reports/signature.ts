// Signatures: exclude blocks of texts that cannot contain a part, without reading them.
// Each piece of two, three, four or six characters of a block's texts sets bits at positions that
// its hash determines. A block without all bits of a part does not contain it.

/** Positions of a signature. If a block has 256 ordinary records, a fifth of them are set. */
const places = 65_536;
/** Records whose texts make a block. */
export const recordsOfBlock = 256;
/** Blocks that share a signature. Each has one bit in every word. */
export const blocksOfSignature = 32;
/** Positions that a search checks. More would exclude few additional blocks. */
const maxPlaces = 4;

/** Returns words of 32 bits, all unset. */
export function createSignature(): Uint32Array {
  return new Uint32Array(places);
}

/**
 * Sets the bits of a block.
 * @param at the index of the block in the signature
 */
export function markTexts(words: Uint32Array, at: number, texts: readonly string[]): void {
  const bit = 1 << at;
  for (const text of texts) {
    for (let index = 0; index + 1 < text.length; index += 1) {
      // Each hash continues the previous one, because this runs for every character of a workspace.
      let first = startA;
      let second = startB;
      const end = Math.min(text.length, index + longest);
      for (let next = index; next < end; next += 1) {
        const character = text.charCodeAt(next);
        first = step(first, character);
        second = step(second, character);
        const length = next - index + 1;
        if (length > 1 && length !== 5) setBit(words, toPlace(first, length), bit);
        if (length === 2 || length === 3) setBit(words, toPlace(second, length), bit);
      }
    }
  }
}

/** The maximum length of a piece in characters. */
const longest = 6;
/**
 * Initial values of hashes. Pieces of two and three characters have two positions each, because a
 * part of that length has no other pieces to check.
 */
const startA = 0x811c9dc5;
const startB = 0x9e3779b9;

function setBit(words: Uint32Array, place: number, bit: number): void {
  words[place] = (words[place] as number) | bit;
}

function step(hash: number, character: number): number {
  return Math.imul(hash ^ character, 0x01000193);
}

function toPlace(hash: number, length: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 15) ^ length, 0x2c1b3c6d);
  return (mixed ^ (mixed >>> 13)) & (places - 1);
}

/**
 * Returns the positions at which a block has bits if one of its texts contains the part.
 * @param part at least two characters, in lower case
 */
export function computePlaces(part: string): number[] {
  if (part.length < 4) return [startA, startB].map((seed) => computePiecePlace(part, seed));
  // Longer pieces are in fewer blocks.
  return [longest, 4]
    .flatMap((length) => takePieces(part, length).map((piece) => computePiecePlace(piece, startA)))
    .slice(0, maxPlaces);
}

/** Returns pieces that are spread evenly over the part, including the first and the last one. */
function takePieces(part: string, length: number): string[] {
  const all = Math.max(0, part.length - length + 1);
  const asked = Math.min(all, maxPlaces);
  return Array.from({ length: asked }, (_, index) => {
    const start = Math.round((index * (all - 1)) / Math.max(1, asked - 1));
    return part.slice(start, start + length);
  });
}

function computePiecePlace(piece: string, seed: number): number {
  let hash = seed;
  for (let index = 0; index < piece.length; index += 1) hash = step(hash, piece.charCodeAt(index));
  return toPlace(hash, piece.length);
}

/**
 * Returns the blocks that have the bits of all positions.
 * @param words one for each position, of the signature `number`
 */
export function findBlocksWith(words: readonly number[], number: number): number[] {
  const bits = words.reduce((all, word) => all & word, -1);
  return Array.from({ length: blocksOfSignature }, (_, at) => at).flatMap((at) =>
    bits & (1 << at) ? number * blocksOfSignature + at : [],
  );
}
