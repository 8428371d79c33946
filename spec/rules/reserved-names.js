// Names that a language reserves. Client generators rename schemas with these names.

/** By language: keywords, and types that are in scope everywhere. */
const reserved = {
  TypeScript:
    'any array arraybuffer asyncgenerator await bigint blob boolean class const date document enum error event exclude export extends extract false file function generator headers import infer interface iterator let map math module namespace never null number object omit partial pick promise proxy readonly record reflect regexp request required response return set static string switch symbol this true type typeof undefined unknown var void weakmap weakset window with yield',
  Python:
    'and as assert async await bool break bytes class complex continue def del dict elif else ellipsis enumerate except exception false filter finally float for format frozenset from global if import in input int is lambda list map none nonlocal not object or pass print property raise range return set slice str super true try tuple type warning while with yield',
  Go: 'any append bool break byte cap case chan close comparable const continue copy default defer delete else error fallthrough false float32 float64 for func go goto if import int interface len make map max min new nil package panic print range recover return rune select string struct switch true type uint var',
  Java: 'abstract assert boolean break byte case catch char character class comparable const continue default deprecated do double else enum error exception extends final finally float for goto if implements import instanceof int integer interface iterable long math module native new null number object override package private process protected public record return runnable runtime short static strictfp string super switch synchronized system this thread throw throwable throws transient try var void volatile while yield',
  PHP: 'abstract and array arrayaccess as bool break callable case catch class clone closure const continue countable declare default die do echo else elseif empty enddeclare endfor endforeach endif endswitch endwhile enum error eval exception exit extends false final finally float fn for foreach function generator global goto if implements include instanceof insteadof int interface isset iterable iterator list match mixed namespace never new null object or parent print private protected public readonly require resource return self static string switch throw traversable trait true try unset use var void while xor yield',
  'C#': 'abstract action as attribute base bool boolean break byte case catch char checked class const continue convert datetime decimal default delegate do double dynamic else enum environment event exception explicit extern false finally fixed float for foreach func goto guid if implicit in int int32 int64 interface internal is lock long math namespace new null nullable object operator out override params private protected public readonly record ref return sbyte sealed short sizeof stackalloc static string struct switch this throw true try tuple type typeof uint ulong unchecked unsafe uri ushort using version virtual void volatile while',
};

const languagesByName = new Map();
for (const [language, names] of Object.entries(reserved))
  for (const name of names.split(' ')) languagesByName.set(name, [...(languagesByName.get(name) ?? []), language]);

/** Returns the languages that reserve a name. Ignores case, because generators change it. */
export function languagesThatReserve(name) {
  return languagesByName.get(name.toLowerCase()) ?? [];
}
