// What the name of a function tells: its package, which gives the colour, and shorter ways to write it in narrow bars.
// Every language and every profiler writes names in its own way; tests/names.spec.ts has real ones of each.

/** `native` is C code without packages, told apart by its library; `cut` ends stacks that were cut when pushed. */
export type Kind = 'code' | 'library' | 'native' | 'kernel' | 'runtime' | 'rest' | 'cut';
export interface Origin { kind: Kind; package: string }

/** The server sums what it cut off at `max_nodes` into frames of this name, and any function so called with them. */
export const REST = 'other';
/** Frames in which the server counts what it cut when stacks were pushed. */
export const CUTS: Record<string, string> = {
  '[truncated stack]': 'These stacks were deeper than the server keeps (max_profile_stacktrace_depth). Their deeper frames were cut when they were pushed.',
  '[too many stacks]': 'More distinct stacks came in an hour than the server keeps for a service (max_stacks_per_service_hour). The others were summed here when they were pushed.',
};

/** Texts of mangled names, as the server told them. A name has the same text in every answer. */
const texts = new Map<string, string>();
export function learn(pairs: [name: string, text: string][]): void {
  for (const [name, text] of pairs) if (text) texts.set(name, text);
}

const ESCAPES: Record<string, string> = { LT: '<', GT: '>', RF: '&', BP: '*', C: ',', SP: '@', LP: '(', RP: ')' };

/** The whole name as people read it. Older versions of perf leave the escapes of Rust in it. */
export function readable(name: string): string {
  const text = texts.get(name) ?? name;
  if (!/\$(LT|RF|u[0-9a-f]{2})\$|::h[0-9a-f]{16}$/.test(text)) return text;
  return text.replace(/::h[0-9a-f]{16}$/, '').replace(/(^|::)_\$/g, '$1$').replace(/\$(?:u([0-9a-f]{2})|([A-Z]{1,2}))\$/g,
    (all, hex, key) => (hex ? String.fromCharCode(parseInt(hex, 16)) : ESCAPES[key] ?? all)).replace(/\.\./g, '::');
}

const GO_LIBRARY = new RegExp(
  '^(bufio|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding|errors|expvar|flag|fmt|hash|html|' +
  'image|index|io|iter|log|maps|math|mime|net|os|path|plugin|reflect|regexp|slices|sort|strconv|strings|sync|syscall|' +
  'testing|text|time|unicode|unique|unsafe|internal|vendor)[./][^:]*$');
const JAVA_LIBRARY = /^(java|javax|sun|jdk|kotlin|scala)[./]/;
const RUNTIME = new RegExp(
  '^(runtime[./(]|internal/runtime/|gc$|gcWriteBarrier|\\[(vdso|unknown|GC|idle)|\\((garbage collector|idle|program|root|external)\\)$|GC |VM |GCTaskManager::|' +
  'Interpreter$|Garbage Collection$|__vdso_|jdk[./]internal|java[./]lang[./](Thread|invoke)|(Builtin|Stub|RegExp|BytecodeHandler):|V8::|call_stub$|\\.(unknown|no)_Java|<\\?php$|total$|$)');
/** Ways into the kernel, which make all below them the kernel's, and what is often met without them. */
const KERNEL = new RegExp(
  '^(\\[(kernel|guest\\.kernel)|do_(syscall|softirq|idle)|entry_(SYSCALL|INT80)|(__)?(x64_|ia32_|arm64_|se_|do_)?sys_|ksys_|system_call|el[01]\\w*_|' +
  'asm_|exc_|ret_from_|x86_64_start_kernel|(secondary_)?start(up)?_(kernel|secondary)|cpu_startup|swapper|__schedule$|schedule$|(__)?vfs_|tcp_v4|_raw_spin|(default|native|cpu)_idle|' +
  'page_fault|(__)?do_page_fault|worker_thread$|kthread$|rcu_gp|hrtimer_|net_rx|fput$)');
/** Names without a package that were seen below the entry to the kernel. */
const below = new Set<string>();
export const learnKernel = (name: string): unknown => below.add(name);

/** Prefixes of C functions, and the libraries that have them. */
const LIBRARIES: [RegExp, string][] = [
  [/^(__libc|__GI_|_int_(malloc|free)|([mc]|re)alloc|c?free|mem(cpy|move|set|cmp|chr)|str(len|n?cmp|n?cpy|chr)|start_thread|(__)?clone3?|_*pthread_|_start|epoll_|__(poll|read|write|exec|mem|str)\w*)/, 'libc'],
  [/^(SSL_|EVP_|BIO_|CRYPTO_|ossl_)/, 'libssl'], [/^rocksdb_/, 'librocksdb'], [/^uv__?/, 'libuv'], [/^sqlite3/, 'libsqlite3'],
  [/^(ZSTD|HUF)_/, 'libzstd'], [/^(de|in)flate/, 'libz'], [/^_?Py[A-Z]\w*_/, 'libpython'], [/^(rb|ruby)_/, 'libruby'], [/^(zend|php)_/, 'php'],
  [/^(Java|JVM|jni)_/, 'JNI'], [/^je_/, 'libjemalloc'],
];

/** A frame that stands for a whole file without symbols, such as `[librocksdb.so.7.8]`. */
const BRACKETED = /^\[([^\]]*?)(?:-[\d.]+)?(?:\.so[.\d]*)?\]$/;
/** A library before the name of a function: `libasyncProfiler-linux-x64.so.Java_one_profiler_execute0`. */
const IN_FILE = /^(lib[^/]*?)(?:-[^/]*)?\.so[.\d]*[.!`](.+)$/;
const V8 = /^(?:LazyCompile|Function|Script|Eval|InterpretedFunction|JS):[*~^+-]?(.*?) ?((?:node:|file:|[^\s:]*[./])[^\s]*|)$/;
const SCRIPT = '(?:[^\\s()]*\\.(?:[cm]?[jt]sx?|py|rb|php|rs|lua|exs?)|node:[\\w/]+|<frozen [\\w.]+>)';
/** `file:function:line`, `file:line - function`, `file:function`, `function (file:line)`, `function - file:line`. */
const PLACED: [RegExp, number, number][] = [
  [new RegExp(`^(${SCRIPT}|):(.*):\\d+$`), 2, 1], [new RegExp(`^(${SCRIPT}|):\\d+ - (.+)$`), 2, 1], [new RegExp(`^(${SCRIPT}):([^:\\d].*)$`), 2, 1],
  [new RegExp(`^(${SCRIPT}(?::\\d+)*)$`), 2, 1],
  [new RegExp(`^(.+) \\((${SCRIPT})(?::\\d+)?\\)$`), 1, 2], [new RegExp(`^(.+) - (${SCRIPT})(?::\\d+)?$`), 1, 2],
];
const JAVA_PATH = /^((?:[a-z_][\w$]*\/)+)([\w$]+)\.(.+)$/;
const NET = /^([\w.]*)!(.*)$/;
const PERF_SUFFIX = /_\[([a-z\d])\]$/;

/** A name taken apart: the function, the file where that is told, and whether that is a script's. */
function takeApart(raw: string): { name: string; file: string; kernel: boolean } {
  const suffix = PERF_SUFFIX.exec(raw), kernel = suffix?.[1] === 'k';
  let name = readable(suffix ? raw.slice(0, -4) : raw), file = '';
  // perf-map-agent: what was inlined comes last. Folded stacks have no semicolons within names.
  name = name.replace(/^(?:L[\w$/]+[;:]::.*->)?L([\w$/]+)[;:]::/, '$1.')
    .replace(/\.lambda\$(\w+)\$(\d+)$/, '.$1 (lambda $2)').replace(/\$\$Lambda[\w$/+.-]*\.(\w+)$/, '.$1 (lambda)');
  const v8 = V8.exec(name);
  if (v8) return { name: v8[1] || '(anonymous)', file: v8[2].replace(/^file:\/\//, ''), kernel };
  for (const [pattern, n, f] of PLACED) {
    const found = pattern.exec(name);
    if (!found) continue;
    [name, file] = [found[n].replace(/^\(anonymous:L#(\d+).*/, '(anonymous, line $1)') || '(anonymous)', found[f]];
    break;
  }
  return { name, file, kernel };
}

/** `host/owner/repository` of a Go import path: the packages of one module share a colour. */
function goModule(path: string): string {
  const parts = path.split('/');
  return parts.slice(0, parts[0].includes('.') ? 3 : 1).join('/');
}

const library = (pkg: string): Origin => ({ kind: 'library', package: pkg });
const code = (pkg: string): Origin => ({ kind: 'code', package: pkg });

/** The package of a script: of npm, pip or gem, the language's own library, or else the folder that it lies in. */
function ofFile(file: string): Origin {
  const installed = /(?:.*\/)?(?:node_modules|(?:site|dist)-packages|gems|vendor)\/((?:@[^/]+\/)?[^/]+)/.exec(file);
  if (installed) return code(installed[1].replace(/-\d[\d.]*$|\.py$/, ''));
  if (/^node:|^[\w]+\.js:|^native |^internal\//.test(file)) return library('node');
  if (/\/python[\d.]+\/|^<frozen/.test(file)) return library('python');
  if (/\/ruby\/[\d.]+\//.test(file)) return library('ruby');
  return code(/([^/]+)\/[^/]*$/.exec(file)?.[1].replace(/^\.+$/, '') ?? '');
}

/** Without what stands in brackets of one kind, however deep; `(anonymous namespace)` and operators stay. */
function without(name: string, open: string, close: string): string {
  if (!name.includes(open)) return name;
  let out = '', depth = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name[i];
    if (c === open && (depth > 0 || !(c === '<' ? /operator<?$/ : /operator$/).test(out))) depth++;
    else if (c === close && depth > 0 && name[i - 1] !== '-') depth--;
    else if (depth === 0) out += c;
  }
  return depth === 0 ? out : name;
}

/** `rocksdb::DB::Get` of a name of C++ or Rust with types and arguments; `<A as B>::f` is `A::f`. */
function plainScope(name: string): string {
  let bare = name.replace(/\(anonymous namespace\)::/g, '').replace(/^(TLS init function|vtable|typeinfo|non-virtual thunk|virtual thunk|guard variable) (for|to) /, '');
  for (let was = ''; bare !== was && bare.startsWith('<');) {
    was = bare;
    // The type that implements a trait names the function, unless the type has no path.
    bare = bare.replace(/^<&?(?:'\w+ )?(?:mut )?(.*?)(?: as (.*))?>::(?=[^>]*$)/, (_, type, trait) => `${trait && !type.includes('::') ? trait : type}::`);
  }
  bare = without(without(bare, '(', ')'), '<', '>').replace(/::(?=::|$)/g, '').replace(/\{\{(\w+)\}\}/g, '{$1}').replace(/\[clone .*|\.(constprop|isra|part|cold|llvm)\b.*/, '').replace(/ const(&+)?$/, '').trim();
  const operator = /operator.*$/.exec(bare)?.[0] ?? '', head = bare.slice(0, bare.length - operator.length);
  return head.slice(/[\s*&]*$/.test(head) && !operator ? head.trimEnd().search(/[^\s*&]+$/) : head.search(/[^\s*&]*$/)) + operator || name;
}

const PLAIN_C = /^[A-Za-z_]\w*(\.(isra|part|constprop|cold|llvm)[.\d]*)*$/;

export function origin(raw: string): Origin {
  if (/^\[perf-\d+\.map\]$/.test(raw)) return { kind: 'native', package: 'JIT code' };
  if (raw === REST) return { kind: 'rest', package: '' };
  if (raw in CUTS) return { kind: 'cut', package: '' };
  const { name, file, kernel } = takeApart(raw);
  if (kernel) return { kind: 'kernel', package: 'kernel' };
  if (RUNTIME.test(name)) return { kind: 'runtime', package: 'runtime' };
  if (/\.rs$|^$/.test(file) === false) return ofFile(file);
  const inFile = BRACKETED.exec(name) ?? IN_FILE.exec(name);
  if (PLAIN_C.test(name) || name[0] === '[') {
    if (below.has(raw) || KERNEL.test(name)) return { kind: 'kernel', package: 'kernel' };
    const found = LIBRARIES.find(([prefix]) => prefix.test(name));
    if (found) return { kind: 'native', package: found[1] };
  }
  if (inFile) return { kind: 'native', package: inFile[1] };
  const net = NET.exec(name), java = JAVA_PATH.exec(name);
  if (net) return { kind: /^(System|Microsoft)\b|^$/.test(net[1]) ? 'library' : 'code', package: net[1].split('.').slice(0, 2).join('.') };
  if (JAVA_LIBRARY.test(name)) return library(name.split(/[./]/).slice(0, 2).join('.'));
  if (java && /^[A-Z]/.test(java[2])) return code(java[1].split('/').slice(0, 2).filter(Boolean).join('.'));
  if (GO_LIBRARY.test(name)) return library(/^[^.]*/.exec(name)![0]);
  if (/^[A-Za-z]\w*\|/.test(name)) return library('PHP');
  if (name.includes('::')) {
    const [scope, inner] = plainScope(name).split('::'), crate = inner === undefined ? '' : scope.split('\\')[0];
    return { kind: /^(std|core|alloc|collections|__gnu_cxx|__cxxabiv1|[iu]size|[iuf]\d+|str|char|bool)$/.test(crate) ? 'library' : 'code', package: crate };
  }
  const path = name.split(/[([]/)[0], slash = path.lastIndexOf('/'), dot = name.indexOf('.', slash + 1);
  if (slash >= 0) return code(goModule(name.slice(0, dot > 0 ? dot : slash)));
  const dotted = /^((?:[a-z]\w*\.){2,})[A-Z]/.exec(name); // com.acme.Shop.buy
  if (dotted) return code(dotted[1].split('.').slice(0, 2).join('.'));
  return code(dot > 0 && !PLAIN_C.test(name) ? name.slice(0, dot).replace(/\$.*/, '') : '');
}

/** From the most telling form to the shortest: `store.(*Head).Flush`, `(*Head).Flush`, `Flush`. Never empty. */
export function shorter(raw: string): string[] {
  if (BRACKETED.test(raw)) return [raw];
  const { name, file } = takeApart(raw), forms: string[] = [];
  const add = (s: string | undefined) => {
    if (s && s !== forms[forms.length - 1]) forms.push(s);
  };
  const bare = /^(?:Builtin|Stub):(.+)$/.exec(name)?.[1] ?? IN_FILE.exec(name)?.[2] ?? /^\w+\|(.+)$/.exec(name)?.[1] ?? name;
  const base = /\.rs$|^$/.test(file) ? '' : file.startsWith('node:') ? file : file.slice(file.lastIndexOf('/') + 1);
  if (base) add(`${bare} ${base}`);
  const net = NET.exec(bare), java = JAVA_PATH.exec(bare);
  if (net) method(net[2].replace(/^\./, '').replace(/<(\w+)>[bd]__[\d_]+(<.*>)?\.MoveNext$/, '$1 (async)'), add);
  else if (java && /^[A-Z]/.test(java[2])) method(`${java[2]}.${java[3]}`, add);
  else if (bare.includes('::') || /^[\w:]+\(.*\)( const)?$/.test(bare)) {
    const plain = plainScope(bare), scoped = plain.split(/::(?!\{)/); // `{closure}` alone tells nothing
    add(plain);
    if (scoped.length > 2) add(scoped.slice(-2).join('::'));
    add(scoped[scoped.length - 1]);
  } else method(bare, add);
  return forms.length > 0 ? forms : [raw];
}

/** Names with dots, and paths before them. */
function method(name: string, add: (form: string | undefined) => void): void {
  const head = name.split(/[([]/)[0], tail = (/^[^\s<(]/.test(name) && name.slice(head.lastIndexOf('/') + 1)) || name;
  const told = tail.replace(/\.(isra|part|constprop|cold|llvm)\.[.\w]*$/, '');
  const first = /^(?:[a-z]\w*\.){2,}([A-Z].*)$/.exec(told)?.[1] ?? told;
  add(first);
  if (told.endsWith('<init>') || told.endsWith('<clinit>') || told.startsWith('(')) return;
  add(/^[^.([]*\.(.+)$/.exec(first)?.[1]);
  const plain = told.replace(/\[\.\.\.\]|\[go\.shape[^\]]*\]/g, ''), bare = /(?:\)\.|\.)([\w$<>-]+(?: \((?:async|lambda)[ \d]*\))?)$/.exec(plain)?.[1];
  if (bare && !/^(func|gowrap)?\d+$/.test(bare)) add(bare); // `func1` and `2` tell nothing
}
