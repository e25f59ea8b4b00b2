// What the name of a function tells: its package, which gives the colour, and shorter ways to write it in narrow bars.

export type Kind = 'code' | 'library' | 'runtime' | 'rest';
export interface Origin { kind: Kind; package: string }

/** The server sums what it cut off at `max_nodes` into frames of this name, and any function so called with them. */
export const REST = 'other';

const GO_LIBRARY = new RegExp(
  '^(bufio|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding|errors|expvar|flag|fmt|hash|html|' +
  'image|index|io|iter|log|maps|math|mime|net|os|path|plugin|reflect|regexp|slices|sort|strconv|strings|sync|syscall|' +
  'testing|text|time|unicode|unique|unsafe|internal|vendor)[./]');
const JAVA_LIBRARY = /^(java|javax|sun|jdk|kotlin|scala)[./]/;
const RUNTIME = new RegExp(
  '^(runtime[./(]|gc$|gcWriteBarrier|\\[(kernel|vdso|unknown|GC|idle)|do_syscall|entry_SYSCALL|_?_?x64_sys|__libc|' +
  'start_thread|clone3?$|GC |VM |jdk[./]internal|java[./]lang[./](Thread|invoke)|swapper|total$)');

/** A frame that stands for a whole file without symbols, such as `[librocksdb.so.7.8]`. */
const BRACKETED = /^\[([^\]]*?)(?:\.so[.\d]*)?\]$/;

/** `host/owner/repository` of a Go import path: the packages of one module share a colour. */
function goModule(path: string): string {
  const parts = path.split('/');
  return parts.slice(0, parts[0].includes('.') ? 3 : 1).join('/');
}

export function origin(name: string): Origin {
  if (name === REST) return { kind: 'rest', package: '' };
  if (RUNTIME.test(name)) return { kind: 'runtime', package: 'runtime' };
  const file = BRACKETED.exec(name);
  if (file) return { kind: 'library', package: file[1] };
  if (GO_LIBRARY.test(name)) return { kind: 'library', package: /^[^.]*/.exec(name)![0] };
  if (JAVA_LIBRARY.test(name)) return { kind: 'library', package: name.split(/[./]/).slice(0, 2).join('.') };
  if (name.includes('::')) {
    // Before the first part may stand what it returns (`char* rocksdb::f`) or what it is (`TLS init function for a::b`).
    const crate = name.replace(/^[<&]+/, '').split('::')[0].split(/[\s*&]+/).pop()!;
    return { kind: /^(std|core|alloc)$/.test(crate) ? 'library' : 'code', package: crate };
  }
  const slash = name.lastIndexOf('/', name.includes('(') ? name.indexOf('(') : undefined);
  const dot = name.indexOf('.', slash + 1);
  if (slash >= 0) return { kind: 'code', package: goModule(name.slice(0, dot > 0 ? dot : slash)) };
  return { kind: 'code', package: dot > 0 ? name.slice(0, dot) : '' };
}

/** From the most telling form to the shortest: `store.(*Head).Flush`, `(*Head).Flush`, `Flush`. Never empty. */
export function shorter(name: string): string[] {
  if (BRACKETED.test(name)) return [name];
  const paren = name.indexOf('(');
  const tail = name.slice((paren < 0 ? name : name.slice(0, paren)).lastIndexOf('/') + 1) || name;
  const forms = [tail];
  const add = (s: string | undefined) => {
    if (s && s !== forms[forms.length - 1]) forms.push(s);
  };
  const scoped = tail.split('::');
  if (scoped.length > 2) add(scoped.slice(-2).join('::'));
  add(/^[^.(]*\.(.+)$/.exec(tail)?.[1]);
  const bare = /(?:\)\.|::|\.)([\w$<>-]+)$/.exec(tail)?.[1];
  if (bare && !/^(func)?\d+$/.test(bare)) add(bare); // `func1` and `2` tell nothing
  return forms;
}
