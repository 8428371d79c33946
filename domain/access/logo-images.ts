// Images that can be a logo: recognized by their bytes, whatever their name or declared type.

export const logoLimits = { bytes: 262_144, pixels: 4_096 } as const;

/** Media types of logos. SVG is not one of them, because it can contain scripts. */
type LogoType = 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';

export interface ImageFacts {
  contentType: LogoType;
  /** In pixels. */
  width: number;
  height: number;
}

/** Returns the type and size of an image; undefined if the bytes are none of the accepted types. */
export function readImage(bytes: Buffer): ImageFacts | undefined {
  const found = readPng(bytes) ?? readGif(bytes) ?? readWebp(bytes) ?? readJpeg(bytes);
  return found && found.width > 0 && found.height > 0 ? found : undefined;
}

const startsWith = (bytes: Buffer, hex: string): boolean =>
  bytes.subarray(0, hex.length / 2).equals(Buffer.from(hex, 'hex'));

function readPng(bytes: Buffer): ImageFacts | undefined {
  if (!startsWith(bytes, '89504e470d0a1a0a') || bytes.length < 33 || bytes.toString('latin1', 12, 16) !== 'IHDR')
    return undefined;
  return { contentType: 'image/png', width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}

function readGif(bytes: Buffer): ImageFacts | undefined {
  if (!/^GIF8[79]a$/.test(bytes.toString('latin1', 0, 6)) || bytes.length < 13) return undefined;
  return { contentType: 'image/gif', width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) };
}

/** Reads the three kinds of WebP: lossy, lossless and extended. */
function readWebp(bytes: Buffer): ImageFacts | undefined {
  if (bytes.length < 30 || bytes.toString('latin1', 0, 4) !== 'RIFF' || bytes.toString('latin1', 8, 12) !== 'WEBP')
    return undefined;
  const contentType = 'image/webp';
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { contentType, width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
    case 'VP8L': {
      const sizes = bytes.readUInt32LE(21);
      return { contentType, width: (sizes & 0x3fff) + 1, height: ((sizes >>> 14) & 0x3fff) + 1 };
    }
    case 'VP8X':
      return { contentType, width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
    default:
      return undefined;
  }
}

/** Reads the size from the first start-of-frame segment. */
function readJpeg(bytes: Buffer): ImageFacts | undefined {
  if (!startsWith(bytes, 'ffd8ff')) return undefined;
  let at = 2;
  while (at + 9 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1] ?? 0;
    // All of C0 to CF but the tables: C4, C8 and CC.
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      return { contentType: 'image/jpeg', width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
    at += 2 + bytes.readUInt16BE(at + 2);
  }
  return undefined;
}
