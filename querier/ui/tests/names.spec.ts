// Names as profilers and languages write them, and what the page makes of them. All names of the table are of recorded
// profiles: the name, the forms from the longest to the shortest, what it is, and its package or library.
import { expect, test } from '@playwright/test';
import { encodeLevels, encodeResponse } from './profiles.mjs';
import { readGraphResponse } from '../src/api/wire';
import { makePaint, PALETTES } from '../src/flame/colors';
import { buildFlame, findFrame, frameKey, nameOf, ROOT, type Flame } from '../src/flame/model';
import { learn, origin, readable, shorter, type Kind } from '../src/flame/names';
import { heaviestFirst, sandwich } from '../src/flame/stacks';
import { canvas, graphOf, flame, hover, settled, watch } from './pages';

const NAMES: [name: string, forms: string[], kind: Kind, pkg: string][] = [
  // V8: perf maps of Node.js, profiles of eBPF agents
  ['LazyCompile:*fib /usr/src/app/main.js:1',
    ['fib main.js:1', 'fib'], 'code', 'app'],
  ['Function:^ /usr/src/app/main.js:11',
    ['(anonymous) main.js:11', '(anonymous)'], 'code', 'app'],
  ['Function:^processTimers node:internal/timers:497',
    ['processTimers node:internal/timers:497', 'processTimers'], 'library', 'node'],
  ['LazyCompile:*Async$consumeFunctionBuffer /apps/node/webapp/node_modules/xxxxx/js/main/async.js:39',
    ['Async$consumeFunctionBuffer async.js:39', 'Async$consumeFunctionBuffer'], 'code', 'xxxxx'],
  ['LazyCompile:_tickDomainCallback node.js:387',
    ['_tickDomainCallback node.js:387', '_tickDomainCallback'], 'library', 'node'],
  ['LazyCompile:~body_0 evalmachine.<anonymous>:1',
    ['body_0 evalmachine.<anonymous>:1', 'body_0'], 'code', ''],
  ['Builtin:A builtin from the snapshot',
    ['A builtin from the snapshot'], 'runtime', 'runtime'],
  ['Stub:JSEntryStub',
    ['JSEntryStub'], 'runtime', 'runtime'],
  ["RegExp:\\bFoo ?Bar(?:/[\\d.]+|[ \\w.]*)",
    ["RegExp:\\bFoo ?Bar(?:/[\\d.]+|[ \\w.]*)"], 'runtime', 'runtime'],
  ['V8::InternalFrame',
    ['V8::InternalFrame', 'InternalFrame'], 'runtime', 'runtime'],
  // Node.js, pprof
  ['./node_modules/express/lib/router/index.js:process_params:333',
    ['process_params index.js', 'process_params'], 'code', 'express'],
  ['./node_modules/express/lib/router/index.js:(anonymous):275',
    ['(anonymous) index.js', '(anonymous)'], 'code', 'express'],
  ['/Users/shaleynikov/Workspace/pyroscope-nodejs/dist/cjs/index.js:writeProfileAsync:157',
    ['writeProfileAsync index.js', 'writeProfileAsync'], 'code', 'cjs'],
  ['node:_http_agent:createSocket:313',
    ['createSocket node:_http_agent', 'createSocket'], 'library', 'node'],
  ['node:internal/streams/writable:Writable:219',
    ['Writable node:internal/streams/writable', 'Writable'], 'library', 'node'],
  [':next:0',
    ['next'], 'code', ''],
  ['./app.js:(anonymous:L#6:C#13):6',
    ['(anonymous, line 6) app.js', '(anonymous, line 6)'], 'code', ''],
  [':Garbage Collection:0',
    ['Garbage Collection'], 'runtime', 'runtime'],
  ['(garbage collector)',
    ['(garbage collector)'], 'runtime', 'runtime'],
  ['Readable.push',
    ['Readable.push', 'push'], 'code', 'Readable'],
  ['processTicksAndRejections',
    ['processTicksAndRejections'], 'code', ''],
  // C++ and C
  ['v8::internal::Execution::Call(v8::internal::Isolate*, v8::internal::Handle<v8::internal::Object>, v8::internal::Handle<v8::internal::Object>, int, v8::internal::Handle<v8::internal::Object>*, bool)',
    ['v8::internal::Execution::Call', 'Execution::Call', 'Call'], 'code', 'v8'],
  ['node::Start(int, char**)',
    ['node::Start', 'Start'], 'code', 'node'],
  ['OptoRuntime::multianewarray2_C(Klass*, int, int, JavaThread*)',
    ['OptoRuntime::multianewarray2_C', 'multianewarray2_C'], 'code', 'OptoRuntime'],
  ['TypeArrayKlass::multi_allocate(int, int*, Thread*)',
    ['TypeArrayKlass::multi_allocate', 'multi_allocate'], 'code', 'TypeArrayKlass'],
  ['uv__io_poll',
    ['uv__io_poll'], 'native', 'libuv'],
  ['je_arena_tcache_fill_small',
    ['je_arena_tcache_fill_small'], 'native', 'libjemalloc'],
  ['__GI___libc_write',
    ['__GI___libc_write'], 'native', 'libc'],
  ['__libc_start_main',
    ['__libc_start_main'], 'native', 'libc'],
  ['__pthread_disable_asynccancel',
    ['__pthread_disable_asynccancel'], 'native', 'libc'],
  ['[libpthread-2.19.so]',
    ['[libpthread-2.19.so]'], 'native', 'libpthread'],
  ['[perf-10939.map]',
    ['[perf-10939.map]'], 'native', 'JIT code'],
  ['[iperf]',
    ['[iperf]'], 'native', 'iperf'],
  // Rust: pprof-rs, perf with the escapes of older compilers
  [':0 - malloc',
    ['malloc'], 'native', 'libc'],
  ['worker.rs:576 - tokio::runtime::scheduler::multi_thread::worker::Context::run_task::{{closure}}',
    ['tokio::runtime::scheduler::multi_thread::worker::Context::run_task::{closure}', 'Context::run_task::{closure}', 'run_task::{closure}'], 'code', 'tokio'],
  ['alloc.rs:241 - <alloc::alloc::Global as core::alloc::Allocator>::allocate',
    ['alloc::alloc::Global::allocate', 'Global::allocate', 'allocate'], 'library', 'alloc'],
  ['cmp.rs:1495 - core::cmp::impls::<impl core::cmp::PartialOrd<&B> for &A>::ge',
    ['core::cmp::impls::ge', 'impls::ge', 'ge'], 'library', 'core'],
  ['conn.rs:1046 - <hyper::server::conn::upgrades::UpgradeableConnection<I,S,E> as core::future::future::Future>::poll',
    ['hyper::server::conn::upgrades::UpgradeableConnection::poll', 'UpgradeableConnection::poll', 'poll'], 'code', 'hyper'],
  ['generic.rs:101 - <F as warp::generic::Func<()>>::call',
    ['warp::generic::Func::call', 'Func::call', 'call'], 'code', 'warp'],
  ['main.rs:77 - server::main::{{closure}}::{{closure}}',
    ['server::main::{closure}::{closure}', 'main::{closure}::{closure}'], 'code', 'server'],
  ['scoped.rs:40 - tokio::runtime::context::scoped::Scoped<T>::set',
    ['tokio::runtime::context::scoped::Scoped::set', 'Scoped::set', 'set'], 'code', 'tokio'],
  ['emulator::main::hc2aaa9b4591a10c7',
    ['emulator::main', 'main'], 'code', 'emulator'],
  ['_$LT$collections..vec..Vec$LT$T$GT$$GT$::extend_desugared::h5bbb8e6b5a245d7f',
    ['collections::vec::Vec::extend_desugared', 'Vec::extend_desugared', 'extend_desugared'], 'library', 'collections'],
  ['_$LT$$RF$$u27$a$u20$mut$u20$I$u20$as$u20$core..iter..iterator..Iterator$GT$::next::h01cfe524df2e1837',
    ['core::iter::iterator::Iterator::next', 'Iterator::next', 'next'], 'library', 'core'],
  ['term::terminfo::TermInfo::from_name::_$u7b$$u7b$closure$u7d$$u7d$::hbdb8aa57609652e0',
    ['term::terminfo::TermInfo::from_name::{closure}', 'TermInfo::from_name::{closure}', 'from_name::{closure}'], 'code', 'term'],
  ['__rust_maybe_catch_panic',
    ['__rust_maybe_catch_panic'], 'code', ''],
  // the kernel
  ['do_syscall_64',
    ['do_syscall_64'], 'kernel', 'kernel'],
  ['entry_SYSCALL_64_after_hwframe',
    ['entry_SYSCALL_64_after_hwframe'], 'kernel', 'kernel'],
  ['__arm64_sys_nanosleep',
    ['__arm64_sys_nanosleep'], 'kernel', 'kernel'],
  ['el0t_64_irq_handler',
    ['el0t_64_irq_handler'], 'kernel', 'kernel'],
  ['__vfs_write',
    ['__vfs_write'], 'kernel', 'kernel'],
  ['ksys_write',
    ['ksys_write'], 'kernel', 'kernel'],
  ['__do_page_fault_[k]',
    ['__do_page_fault'], 'kernel', 'kernel'],
  ['validate_xmit_skb.isra.102.part.103_[k]',
    ['validate_xmit_skb'], 'kernel', 'kernel'],
  ['[unknown]',
    ['[unknown]'], 'runtime', 'runtime'],
  // Java: async-profiler, JFR, perf-map-agent
  ['App.fib',
    ['App.fib', 'fib'], 'code', 'App'],
  ['App$$Lambda_.call',
    ['App.call (lambda)', 'call (lambda)'], 'code', 'App'],
  ['App.lambda$appLogic$0',
    ['App.appLogic (lambda 0)', 'appLogic (lambda 0)'], 'code', 'App'],
  ['java/io/OutputStreamWriter.<init>',
    ['OutputStreamWriter.<init>'], 'library', 'java.io'],
  ['io/pyroscope/labels/Pyroscope$LabelsWrapper.run',
    ['Pyroscope$LabelsWrapper.run', 'run'], 'code', 'io.pyroscope'],
  ['java/util/concurrent/ThreadPoolExecutor$Worker.run',
    ['ThreadPoolExecutor$Worker.run', 'run'], 'library', 'java.util'],
  ['java/lang/Thread.run',
    ['Thread.run', 'run'], 'runtime', 'runtime'],
  ['NioSocketImpl$1.read_[j]',
    ['NioSocketImpl$1.read', 'read'], 'code', 'NioSocketImpl'],
  ['ByteBuffer.get_[i]',
    ['ByteBuffer.get', 'get'], 'code', 'ByteBuffer'],
  ['libjvm.so.Compilation::build_hir',
    ['Compilation::build_hir', 'build_hir'], 'native', 'libjvm'],
  ['libc.so.6.start_thread',
    ['start_thread'], 'native', 'libc'],
  ['libasyncProfiler-linux-x64-505cc169188276c919be50bc1b47e8f236295f.so.Java_one_profiler_AsyncProfiler_execute0',
    ['Java_one_profiler_AsyncProfiler_execute0'], 'native', 'libasyncProfiler'],
  ['.unknown_Java',
    ['.unknown_Java', 'unknown_Java'], 'runtime', 'runtime'],
  ['LCounter;::countTo',
    ['Counter.countTo', 'countTo'], 'code', 'Counter'],
  ['Ljava/io/PrintStream;::println->Ljava/io/PrintStream;::newLine->Ljava/io/OutputStreamWriter;::flushBuffer',
    ['OutputStreamWriter.flushBuffer', 'flushBuffer'], 'library', 'java.io'],
  ['Ljava/io/FileOutputStream:::writeBytes',
    ['FileOutputStream.writeBytes', 'writeBytes'], 'library', 'java.io'],
  ['.no_Java_frame',
    ['.no_Java_frame', 'no_Java_frame'], 'runtime', 'runtime'],
  // Python
  ['<module>',
    ['<module>'], 'code', ''],
  ['prime_number_from_1_to',
    ['prime_number_from_1_to'], 'code', ''],
  // Go
  ['runtime.mallocgc',
    ['runtime.mallocgc', 'mallocgc'], 'runtime', 'runtime'],
  ['github.com/grafana/loki/pkg/chunkenc.(*unorderedHeadBlock).Append',
    ['chunkenc.(*unorderedHeadBlock).Append', '(*unorderedHeadBlock).Append', 'Append'], 'code', 'github.com/grafana/loki'],
  ['github.com/grafana/loki/pkg/storage/stores/series/index.(*cachingIndexClient).doQueries.func2',
    ['index.(*cachingIndexClient).doQueries.func2', '(*cachingIndexClient).doQueries.func2'], 'code', 'github.com/grafana/loki'],
  ['google.golang.org/grpc.(*Server).serveStreams.func1.2',
    ['grpc.(*Server).serveStreams.func1.2', '(*Server).serveStreams.func1.2'], 'code', 'google.golang.org/grpc'],
  ['sync/atomic.(*Pointer[...]).CompareAndSwap',
    ['atomic.(*Pointer[...]).CompareAndSwap', '(*Pointer[...]).CompareAndSwap', 'CompareAndSwap'], 'library', 'sync/atomic'],
  ['encoding/json.appendString[...]',
    ['json.appendString[...]', 'appendString[...]', 'appendString'], 'library', 'encoding/json'],
  ['github.com/google/btree.(*node[...]).iterate',
    ['btree.(*node[...]).iterate', '(*node[...]).iterate', 'iterate'], 'code', 'github.com/google/btree'],
  ['vendor/golang.org/x/net/http2/hpack.glob..func1',
    ['hpack.glob..func1', 'glob..func1'], 'library', 'vendor/golang'],
  ['k8s.io/apimachinery/pkg/apis/meta/v1.(*ObjectMeta).Unmarshal',
    ['v1.(*ObjectMeta).Unmarshal', '(*ObjectMeta).Unmarshal', 'Unmarshal'], 'code', 'k8s.io/apimachinery/pkg'],
  ['github.com/grafana/pyroscope/pkg/util.NewAsyncWriter.gowrap1',
    ['util.NewAsyncWriter.gowrap1', 'NewAsyncWriter.gowrap1'], 'code', 'github.com/grafana/pyroscope'],
  ['internal/runtime/maps.typedmemclr',
    ['maps.typedmemclr', 'typedmemclr'], 'runtime', 'runtime'],
  // .NET
  ['WebApplication1.Controllers!CpuController.fib',
    ['CpuController.fib', 'fib'], 'code', 'WebApplication1.Controllers'],
  ['Microsoft.AspNetCore.Authentication!AuthenticationMiddleware.<Invoke>d__6.MoveNext',
    ['AuthenticationMiddleware.Invoke (async)', 'Invoke (async)'], 'library', 'Microsoft.AspNetCore'],
  ['Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http!HttpProtocol.<ProcessRequests>d__238<TContext>.MoveNext',
    ['HttpProtocol.ProcessRequests (async)', 'ProcessRequests (async)'], 'library', 'Microsoft.AspNetCore'],
  ['Microsoft.AspNetCore.Mvc.Infrastructure!ActionMethodExecutor.SyncObjectResultExecutor.Execute',
    ['ActionMethodExecutor.SyncObjectResultExecutor.Execute', 'SyncObjectResultExecutor.Execute', 'Execute'], 'library', 'Microsoft.AspNetCore'],
  ['Swashbuckle.AspNetCore.SwaggerUI!SwaggerUIMiddleware.Invoke',
    ['SwaggerUIMiddleware.Invoke', 'Invoke'], 'code', 'Swashbuckle.AspNetCore'],
  ['!.op_Equality',
    ['op_Equality'], 'library', ''],
  // PHP
  ['Core|class_exists',
    ['class_exists'], 'library', 'PHP'],
  ['WP_Query::set_found_posts',
    ['WP_Query::set_found_posts', 'set_found_posts'], 'code', 'WP_Query'],
  ['wptexturize',
    ['wptexturize'], 'code', ''],
  ['<?php',
    ['<?php'], 'runtime', 'runtime'],
];

for (const [name, forms, kind, pkg] of NAMES) {
  test(`name: ${name.slice(0, 100)}`, () => {
    expect(shorter(name)).toEqual(forms);
    expect(origin(name)).toEqual({ kind, package: pkg });
  });
}

/** Forms that agents document, where no recorded profile has them: the same rules read them. */
const DOCUMENTED: [name: string, forms: string[], kind: Kind, pkg: string][] = [
  ['/usr/lib/python3.11/threading.py:run', ['run threading.py', 'run'], 'library', 'python'],
  ['handler (/srv/shop/views.py:12)', ['handler views.py', 'handler'], 'code', 'shop'],
  ['/venv/lib/python3.11/site-packages/flask/app.py:wsgi_app', ['wsgi_app app.py', 'wsgi_app'], 'code', 'flask'],
  ['/usr/local/bundle/gems/rack-2.2.3/lib/rack/server.rb:12 - start', ['start server.rb', 'start'], 'code', 'rack'],
  ['com/acme/Shop$$Lambda$123/0x0000000800c8.run', ['Shop.run (lambda)', 'run (lambda)'], 'code', 'com.acme'],
  ['com.acme.shop.Cart.total', ['Cart.total', 'total'], 'code', 'com.acme'],
  ['rocksdb::DBImpl::GetImpl(rocksdb::ReadOptions const&, rocksdb::Slice const&) const', ['rocksdb::DBImpl::GetImpl', 'DBImpl::GetImpl', 'GetImpl'], 'code', 'rocksdb'],
  ['std::vector<int, std::allocator<int> >::push_back(int&&)', ['std::vector::push_back', 'vector::push_back', 'push_back'], 'library', 'std'],
  ['bool std::operator==<char>(std::string const&, char const*)', ['std::operator==', 'operator=='], 'library', 'std'],
  ['void (anonymous namespace)::run<int>(int)', ['run'], 'code', ''],
  ['SSL_read', ['SSL_read'], 'native', 'libssl'], ['[librocksdb.so.7.8]', ['[librocksdb.so.7.8]'], 'native', 'librocksdb'],
];

test('forms that agents document', () => {
  for (const [name, forms, kind, pkg] of DOCUMENTED) expect([name, shorter(name), origin(name)]).toEqual([name, forms, { kind, package: pkg }]);
});

test('no name, however odd, hangs or crashes; every name has a form', () => {
  const odd = ['', ' ', '::', '<', '>>>', '((((', 'a::', '$$Lambda', '_$LT$', '->', 'L;::', '!', '|', '::h0123456789abcdef', 'operator<<<>>()', 'a/', '/', '.', '\u0000'];
  for (const name of [...odd, ...odd.map((o) => o.repeat(3000)), 'a:'.repeat(20000), '<a as '.repeat(5000), ' - '.repeat(9000), '1.'.repeat(9000)]) {
    expect(shorter(name).length).toBeGreaterThan(0);
    expect(origin(name).kind).toBeTruthy();
    expect(readable(name).length).toBeGreaterThanOrEqual(0);
  }
});

test('a mangled name is shown by the text that the server tells, and is still the name', () => {
  const name = '_RNvCs8K9WJNlS7Dz_5trace17multiply_matrices';
  learn([[name, 'trace::multiply_matrices'], ['_Z4betav', 'beta()']]);
  expect([readable(name), shorter(name), origin(name)]).toEqual(['trace::multiply_matrices', ['trace::multiply_matrices', 'multiply_matrices'], { kind: 'code', package: 'trace' }]);
  expect(shorter('_Z4betav')).toEqual(['beta']);
  expect(readable('_Z5gammav')).toBe('_Z5gammav');
});

test('names of Rust v0, by their texts', () => {
  const TEXTS: [name: string, text: string, forms: string[], kind: Kind, pkg: string][] = [
    ['_RNvXsb_NtCsfiKabdrepoq_5alloc3vecINtB5_3VecdEINtNtNtCsTACXlTRjQ_4core3ops5index5IndexjE5indexCs8K9WJNlS7Dz_5trace',
      '<alloc::vec::Vec<f64> as core::ops::index::Index<usize>>::index', ['alloc::vec::Vec::index', 'Vec::index', 'index'], 'library', 'alloc'],
    ['_RNvXsF_NtNtCsTACXlTRjQ_4core4iter5rangejNtB5_4Step17forward_uncheckedCs8K9WJNlS7Dz_5trace',
      '<usize as core::iter::range::Step>::forward_unchecked', ['core::iter::range::Step::forward_unchecked', 'Step::forward_unchecked', 'forward_unchecked'], 'library', 'core'],
    ['_RNvNvMs9_NtCsTACXlTRjQ_4core3numj13unchecked_add18precondition_checkCs8K9WJNlS7Dz_5trace',
      '<usize>::unchecked_add::precondition_check', ['usize::unchecked_add::precondition_check', 'unchecked_add::precondition_check', 'precondition_check'], 'library', 'usize'],
    ['_RINvNtCse0yjq9ZQveU_3std2rt10lang_startuECs8K9WJNlS7Dz_5trace', 'std::rt::lang_start::<()>', ['std::rt::lang_start', 'rt::lang_start', 'lang_start'], 'library', 'std'],
    ['_RNCNkNvNtNtCsiznFMVuT3yX_4rand4rngs6thread14THREAD_RNG_KEY00B9_', 'rand::rngs::thread::THREAD_RNG_KEY::{closure#0}',
      ['rand::rngs::thread::THREAD_RNG_KEY::{closure#0}', 'thread::THREAD_RNG_KEY::{closure#0}', 'THREAD_RNG_KEY::{closure#0}'], 'code', 'rand'],
    ['_RNvXsl_NtCs2zQ9tAH61OF_11rand_chacha6chachaNtB5_12ChaCha12CoreNtNtCseBIf0Yfsj9G_9rand_core5block12BlockRngCore8generateCsiznFMVuT3yX_4rand',
      '<rand_chacha::chacha::ChaCha12Core as rand_core::block::BlockRngCore>::generate', ['rand_chacha::chacha::ChaCha12Core::generate', 'ChaCha12Core::generate', 'generate'],
      'code', 'rand_chacha'],
  ];
  learn(TEXTS.map(([name, text]) => [name, text]));
  for (const [name, text, forms, kind, pkg] of TEXTS) expect([readable(name), shorter(name), origin(name)]).toEqual([text, forms, { kind, package: pkg }]);
});

const graph = (stacks: [string, number][]) => buildFlame(readGraphResponse(new Uint8Array(encodeResponse(encodeLevels(stacks)))));
const frame = (f: Flame, name: string) => [...f.name.keys()].find((i) => nameOf(f, i) === name)!;
const legend = (f: Flame, focus = ROOT) => makePaint(f, 'dark').legendOf!([{ of: f, focus, weight: f.self }]);

test('a package has the same colour in every picture, whatever else is in it', () => {
  const big = graph([['github.com/a/b.F', 2], ['main.main;github.com/a/b.F;net/http.G', 5], ['main.main;github.com/c/d.H', 50], ['github.com/e/f.I', 900]]), small = graph([['github.com/a/b.F;github.com/a/b.J', 1]]);
  const style = (f: Flame, of: Flame, name: string) => {
    const paint = makePaint(f, 'light');
    return paint.styles[paint.styleOf(of, frame(of, name))];
  };
  const expected = makePaint(big, 'light').colorOf('github.com/a/b.F');
  expect([style(big, big, 'github.com/a/b.F'), style(small, small, 'github.com/a/b.F'), style(big, heaviestFirst(big), 'github.com/a/b.F')]).toEqual(new Array(3).fill(expected));
  const { callers, callees } = sandwich(big, 'github.com/a/b.F')!;
  expect([style(big, callees, 'net/http.G'), style(big, callers, 'main.main')]).toEqual([style(big, big, 'net/http.G'), style(big, big, 'main.main')]);
  const swatch = (f: Flame) => legend(f).filter((l) => l.text === 'a/b');
  expect(swatch(small)).toHaveLength(1);
  expect(swatch(big)[0].color).toBe(swatch(small)[0].color);
});

test('the legend is of the frames on screen, by their time', () => {
  const f = graph([['main.main;github.com/a/b.F;net/http.G', 5], ['main.main;github.com/c/d.H;do_syscall_64', 50], ['main.main', 7], ['main.main;other', 99]]);
  expect(legend(f).map((l) => l.text)).toEqual(['kernel', 'main', 'standard library']);
  expect(legend(f, frame(f, 'github.com/a/b.F')).map((l) => l.text)).toEqual(['standard library']);
  expect(legend(f, frame(f, 'do_syscall_64')).map((l) => l.text)).toEqual(['kernel']);
});

test('kernel and libraries are told apart, and names below the entry to the kernel are its', () => {
  const f = graph([['SSL_read;__libc_recv;entry_SYSCALL_64_after_hwframe;sock_read_iter_x;skb_copy_x', 4], ['ZSTD_compress', 3], ['work', 2]]), p = PALETTES.dark;
  expect(legend(f).map((l) => l.text)).toEqual(['kernel', 'libzstd', 'no package']);
  const paint = makePaint(f, 'dark'), color = (name: string) => paint.styles[paint.styleOf(f, frame(f, name))];
  expect([color('skb_copy_x'), color('sock_read_iter_x')].filter((c) => !p.kernel.includes(c))).toEqual([]);
  expect([color('SSL_read'), color('ZSTD_compress'), color('__libc_recv')].filter((c) => !p.native.includes(c))).toEqual([]);
  expect(origin('skb_copy_x').kind).toBe('kernel');
});

test('a frame is found by its key again and again, and another key finds another', () => {
  const f = graph([['a;b', 1], ['a;c', 1]]), b = frame(f, 'b'), c = frame(f, 'c');
  expect([findFrame(f, frameKey(f, b)), findFrame(f, frameKey(f, b)), findFrame(f, frameKey(f, c)), findFrame(f, 'zzzzzzz')]).toEqual([b, b, c, -1]);
});

test('on the page: short names in the table, whole names where they are asked for, a legend that follows the zoom', async ({ page }) => {
  const troubles = watch(page);
  await page.route('**/SelectMergeStacktraces', (r) => r.fulfill(graphOf([
    ['Function:^ /usr/src/app/main.js:11;LazyCompile:*fib /usr/src/app/main.js:1', 9e8], ['./node_modules/express/lib/router/index.js:next:176;do_syscall_64;fget_x', 1e8],
  ])));
  await page.goto(flame());
  const button = page.getByRole('button', { name: 'fib main.js:1' }), items = page.locator('.work .legend li');
  await expect(button).toHaveAttribute('title', 'LazyCompile:*fib /usr/src/app/main.js:1');
  await expect(items).toHaveText(['app', 'kernel']);
  await hover(page, 0.9, 2);
  await expect(page.getByRole('tooltip').locator('.function')).toHaveText('LazyCompile:*fib /usr/src/app/main.js:1');
  await expect(page.getByRole('tooltip')).toContainText('app');
  await page.getByLabel('Search functions').fill('fib');
  await expect(page.locator('.trow')).toHaveCount(1);
  await page.getByRole('button', { name: 'Clear the search' }).click();
  await hover(page, 0.05, 1);
  const name = await page.getByRole('tooltip').locator('.function').textContent();
  await page.mouse.down();
  await page.mouse.up();
  await expect(items).toHaveText(name!.includes('express') ? ['kernel'] : ['app']);
  await settled(page);
  await expect(canvas(page)).toBeVisible();
  expect(troubles).toEqual([]);
});
