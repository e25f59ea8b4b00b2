// One profile, or two compared, from all sides: search, table, flame graph, sandwich, and what can be done with a
// function. What is chosen here is in the address.
import type { ComponentChildren } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { address, go, type Patch } from '../address';
import { withinOf } from '../answer';
import { leavesOut, type Exactness, type NamedRow } from '../api/client';
import { makePaint, paintChange, type ColorBy, type DiffPalette, type Paint, type Shown } from '../flame/colors';
import { FlameGraph, type FrameMenu, type Whole } from '../flame/FlameGraph';
import type { Shape } from '../flame/draw';
import { fold } from '../flame/fold';
import { findFrame, frameKey, ROOT, share, type Flame } from '../flame/model';
import { readable, REST, shorter } from '../flame/names';
import type { Norm } from '../flame/norm';
import { heaviestFirst, markNames, matcher, namedRows, outermost, sandwich, type Matched, type Sandwich } from '../flame/stacks';
import { exact, percent, plural } from '../format';
import { valueWriter } from '../ptype';
import { FunctionTable } from './FunctionTable';
import { Icon } from './icons';
import { useKeys } from './keys';
import { useLoad } from './load';
import { Menu, type MenuAt, type MenuItem } from './Menu';
import { LoadAll } from './QueryBar';
import { Segments } from './Segments';
import { theme } from './theme';
import { copy } from './toast';

interface Props {
  flame: Flame;
  type: string;
  maxNodes: number;
  path: string[]; // the functions that all stacks begin with, if it was asked so
  lost: boolean;
  norm?: Norm; // of a comparison
  exactness: Exactness;
  functions: (signal: AbortSignal) => Promise<NamedRow[]>; // asks for the sums of all functions
  children: ComponentChildren; // what it is, above all
}

const MORE_NODES = 4, MOST_NODES = 1048576;
const UP: Shape = { upward: true, firstLevel: 1 }, DOWN: Shape = { upward: false, firstLevel: 1 };
/** Before the key of a frame among the callers. */
const CALLER = 'u';

type Show = 'table' | 'both' | 'flame' | 'sandwich';
const SHOWS: [Show, string][] = [['table', 'Table'], ['both', 'Both'], ['flame', 'Flame graph'], ['sandwich', 'Sandwich']];
const COLORS: [ColorBy, string][] = [['package', 'Package'], ['function', 'Function'], ['self', 'Self share']];
const ORDERS: [string, string][] = [['name', 'By name'], ['heavy', 'Heaviest left']];
type Frames = 'all' | 'repeats' | 'runtime' | 'both';
const FRAMES: [Frames, string][] = [['all', 'All frames'], ['repeats', 'Recursion folded'], ['runtime', 'No runtime'], ['both', 'Both folded']];
const PALETTES: [DiffPalette, string][] = [['safe', 'Blue–orange'], ['classic', 'Green–red']];

const oneOf = <T extends string>(text: string, list: [T, string][], otherwise: T): T =>
  list.find(([k]) => k === text)?.[0] ?? otherwise;

/** A regular expression that only this name matches. */
const exactly = (name: string): string => `^${name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}$`;

/** The table's rows: counted in the picture if that has all frames, else the server's. */
function useFunctions(flame: Flame, exactness: Exactness, ask: Props['functions'], wanted: boolean, hidden: boolean, about: string) {
  const partly = leavesOut(exactness, flame), counted = useMemo(() => namedRows(flame), [flame]), asked = useRef(0), last = useRef<Props['functions'] | null>(null);
  if (last.current !== ask) asked.current++;
  last.current = ask;
  const all = useLoad(partly && wanted && !hidden ? `${asked.current}` : null, 0, async (signal) => ({ about, ask, rows: await ask(signal) }));
  const known = partly && !hidden && all.data?.about === about ? all.data : null, current = known?.ask === ask;
  const failed = all.error && !current ? `These sums are of the shown frames only. Those of all frames did not load: ${all.error.message}` : '';
  const waiting = hidden ? 'These sums are of the shown frames only, since runtime and kernel are hidden.' : 'These sums are of the shown frames. Those of all frames are loading.';
  return {
    partly, rows: known && !failed ? known.rows : counted, exact: current,
    note: !partly || current ? '' : failed || waiting,
  };
}

export function Workbench({ flame: sent, type, maxNodes, path, lost, exactness, functions, norm, children }: Props) {
  const a = address.value, show = oneOf(a.show, SHOWS, 'both'), colorBy = oneOf(a.color, COLORS, 'package');
  const palette = oneOf(a.palette, PALETTES, 'safe'), { search, fn, zoom, within } = a, compared = sent.right !== null;
  const frames = oneOf(a.frames, FRAMES, 'all'), repeats = frames === 'repeats' || frames === 'both', runtime = frames === 'runtime' || frames === 'both';
  const [left, middle] = [show !== 'flame', show !== 'table'];
  const [menu, setMenu] = useState<MenuAt | null>(null), target = useRef<string | null>(null), input = useRef<HTMLInputElement>(null);

  // What the page is about: newer values of the same must not move what somebody looks at.
  const about = [a.query, a.leftQuery, a.rightQuery, within, search].join('\n');
  const flame = useMemo(() => (repeats || runtime ? fold(sent, { repeats, runtime }) : sent), [sent, repeats, runtime]);
  const shaped = useMemo(() => (a.order === 'heavy' ? heaviestFirst(flame) : flame), [flame, a.order]);
  const whole: Whole = { left: flame.total[ROOT], right: flame.right?.total[ROOT] ?? 0, norm };
  const paint = useMemo(
    () => (norm ? paintChange(flame, theme.value, palette, norm) : makePaint(flame, theme.value, colorBy)),
    [flame, theme.value, colorBy, palette, norm]);
  const table = useFunctions(flame, exactness, functions, left || fn !== '', runtime, [a.query, a.leftQuery, a.rightQuery, within].join('\n'));
  const keep = useMemo(() => {
    const test = matcher(search);
    return test && ((name: string) => test(name) || test(readable(name)));
  }, [search]);
  const found = useMemo(() => keep && markNames(flame, keep), [flame, keep]);
  const picked = useMemo(() => (fn ? markNames(flame, (n) => n === fn) : null), [flame, fn]);
  const lit = found ?? (show === 'sandwich' ? null : picked);
  const matched = useMemo(() => (lit ? outermost(shaped, lit) : null), [shaped, lit]);
  const [hit, setHit] = useState<Hit | null>(null), shownHit = hit?.of === matched ? hit : null;
  /** The next of the frames that are lit, or the one before. */
  const step = (by: number): boolean => {
    if (!matched || matched.hits.length === 0 || show === 'table' || show === 'sandwich') return false;
    const n = matched.hits.length, index = shownHit ? (shownHit.index + by + n) % n : by > 0 ? 0 : n - 1;
    setHit({ of: matched, index, frame: matched.hits[index] });
    return true;
  };

  const sum = useMemo(() => (table.exact && fn ? table.rows.find((row) => row.name === fn) ?? null : null), [table.rows, table.exact, fn]);
  const both = useMemo(() => (show === 'sandwich' && fn ? sandwich(flame, fn) : null), [flame, fn, show]);

  const sandwichOf = (name: string) => go({ show: 'sandwich', fn: name, zoom: '' });
  const select = (name: string) => go(show === 'sandwich' ? { fn: name, zoom: '' } : { fn: name === fn ? '' : name });
  /** What was cut off below a caller: all stacks through it, or more frames if that is known already. */
  const askRest = (f: Flame, frame: number) => {
    const caller = f.parent[frame], known = within.endsWith(frameKey(f, caller));
    if (caller === ROOT || known || flame !== sent) go({ maxNodes: String(Math.min(MOST_NODES, maxNodes * MORE_NODES)) });
    else go({ within: withinOf(within, f, caller), zoom: frameKey(f, caller) });
  };
  const functionItems = (name: string): MenuItem[] => [
    { text: 'Callers and callees', key: 's', run: () => sandwichOf(name) },
    show === 'sandwich' ? { text: 'Highlight in the flame graph', run: () => go({ fn: name, show: 'both', zoom: '' }) }
      : { text: fn === name ? 'Clear highlight' : 'Highlight', run: () => go({ fn: fn === name ? '' : name }) },
    { text: 'Search for it', run: () => go({ search: exactly(name) }) },
    { text: 'Copy name', key: 'c', run: () => void copy(name, 'Name') },
  ];
  /** Of a frame of the whole graph; in a sandwich only the function counts. */
  const frameMenu = (f: Flame, { name, frame, x, y, callers }: FrameMenu) => {
    if (frame === ROOT) return;
    const key = frameKey(f, frame), items: MenuItem[] = [];
    const narrow = { text: 'Only this call path', run: () => go({ within: withinOf(within, f, frame), zoom: key }) };
    if (name === REST && !compared) items.push({ text: 'Show what was cut off here', run: () => askRest(f, frame) });
    else items.push({ text: 'Zoom in', key: 'Enter', run: () => go({ zoom: key }) }, ...(compared || flame !== sent ? [] : [narrow]), ...functionItems(name));
    items.push({ text: 'Copy the stack', run: () => void copy(callers.join('\n'), 'Stack') });
    setMenu({ title: name, x, y, items });
  };
  const common = { paint, type, whole, maxNodes, lit, onTarget: (n: string | null) => (target.current = n) };

  const meant = (): string | null => target.current ?? (fn || null);
  useKeys([
    { keys: ['/'], text: 'Search functions', run: () => input.current!.focus() },
    {
      keys: ['Escape'], text: 'Clear the search, then the zoom, then the highlight', run: () => {
        if (address.value.search) go({ search: '' });
        else if (address.value.zoom) go({ zoom: '' });
        else if (address.value.fn && address.value.show !== 'sandwich') go({ fn: '' });
        else return false;
        return true;
      },
    },
    { keys: ['s'], text: 'Sandwich: callers and callees of the function', run: () => {
      const name = meant();
      if (name === null) go({ show: 'sandwich' });
      else sandwichOf(name);
    } },
    { keys: ['c'], text: 'Copy the name of the function', run: () => {
      const name = meant();
      if (name !== null) void copy(name, 'Name');
      return name !== null;
    } },
    { keys: ['n'], text: 'Next match', run: () => step(1) },
    { keys: ['N'], text: 'Previous match', run: () => step(-1) },
    { keys: ['t'], text: 'Table', run: () => go({ show: 'table' }) },
    { keys: ['f'], text: 'Flame graph', run: () => go({ show: 'flame' }) },
    { keys: ['b'], text: 'Table and flame graph', run: () => go({ show: 'both' }) },
  ]);
  return (
    <>
      <div class="head">{children}<Legend paint={paint} shown={shownParts(show === 'sandwich' ? both : flame, zoom)} /></div>
      <div class="tools">
        <Search value={search} input={input} />
        <Segments label="Show" value={show} of={SHOWS} set={(v) => go({ show: v, ...((v === 'sandwich') === (show === 'sandwich') ? {} : { zoom: '' }) })} />
        <Hits flame={flame} type={type} whole={whole} matched={matched} search={search} fn={fn} lit={lit} sum={sum} partly={table.partly} at={shownHit} step={show === 'both' || show === 'flame' ? step : null} />
        {compared ? (
          <Choice label="Colours" value={palette} of={PALETTES} set={(v) => go({ palette: v })} />
        ) : (
          <Choice label="Colour" value={colorBy} of={COLORS} set={(v) => go({ color: v })} />
        )}
<Choice label="Frames" value={frames} of={FRAMES} set={(v) => go({ frames: v, zoom: '' })} />
        <Choice label="Order" value={a.order === 'heavy' ? 'heavy' : 'name'} of={ORDERS} set={(v) => go({ order: v })} />
      </div>
      {path.length > 0 && (
        <Note undo="Show all stacks" patch={{ within: '', zoom: '' }}>
          Only this call path: <b title={path.map(readable).join('\n')}>{shorter(path[path.length - 1])[0]}</b>; all shares are of its total.
        </Note>
      )}
      {frames !== 'all' && (
        <Note undo="Show all frames" patch={{ frames: 'all', zoom: '' }}>
          {runtime && 'Runtime and kernel are hidden: their time counts as self of the callers. '}
          {repeats && 'Recursion is folded: ×3 stands for up to 3 frames of a stack.'}
        </Note>
      )}
      <div class={`split ${left && middle ? 'two' : 'one'}`}>
        {left && (
          <FunctionTable {...common} functions={table.rows} compared={compared} note={table.note} keep={keep} wide={show === 'table'} about={about} selected={fn} sort={a.sort} onSort={(s) => go({ sort: s }, 'replace')}
            onSelect={select} onMenu={(name, x, y) => setMenu({ title: name, x, y, items: functionItems(name) })} />
        )}
        {middle && show !== 'sandwich' && (
          <FlameGraph {...common} flame={shaped} about={[a.query, a.leftQuery, a.rightQuery, within, a.order].join('\n')} zoom={zoom} lost={lost} hit={shownHit} label={compared ? 'Flame graph of the change' : 'Flame graph'}
            aside={<span class="dim num size">{table.partly && `${exact(exactness.frames!.sent)} of `}{plural(exactness.frames && flame === sent ? exactness.frames.all : flame.count, 'frame')}, {flame.depth - 1} deep</span>}
            onZoom={(key) => go({ zoom: key })} onRest={compared ? undefined : (frame) => askRest(shaped, frame)} onMenu={(m) => frameMenu(shaped, m)} />
        )}
        {show === 'sandwich' && (
          <Halves flame={flame} both={both} sum={sum} exactness={exactness} fn={fn} zoom={zoom} type={type} whole={whole} common={common}
            onMenu={(m) => m.frame !== ROOT && setMenu({ title: m.name, x: m.x, y: m.y, items: m.name === REST ? [] : functionItems(m.name) })} />
        )}
      </div>
      {menu && menu.items.length > 0 && <Menu {...menu} close={() => setMenu(null)} />}
    </>
  );
}

/** Typing replaces the address, so that Back leads to before the search and not to its letters. */
function Search({ value, input }: { value: string; input: { current: HTMLInputElement | null } }) {
  return (
    <span class="field search">
      <Icon name="search" />
      <input ref={input} type="text" placeholder="Search functions" aria-label="Search functions, regular expressions allowed" spellcheck={false}
        value={value} onInput={(e) => go({ search: e.currentTarget.value }, 'replace')}
        onKeyDown={(e) => {
          if (e.key === 'Enter') e.currentTarget.blur();
          if (e.key !== 'Escape') return;
          e.stopPropagation();
          if (value) go({ search: '' }, 'replace');
          else e.currentTarget.blur();
        }} />
      {value ? <button class="clear" aria-label="Clear the search" onClick={() => go({ search: '' })}><Icon name="close" /></button> : <kbd>/</kbd>}
    </span>
  );
}

interface Hit { of: Matched; index: number; frame: number }
interface HitsProps { at: Hit | null; step: ((by: number) => void) | null; flame: Flame; type: string; whole: Whole; matched: Matched | null; search: string; fn: string; lit: Uint8Array | null; sum: NamedRow | null; partly: boolean }

/** How much of the whole is lit, nested hits counted once. */
function Hits({ flame: f, type, whole, matched: shown, search, fn, lit, sum, partly, at, step }: HitsProps) {
  const names = useMemo(() => (lit ? lit.reduce((n, m) => n + m, 0) : 0), [lit]);
  if (!shown) return <span class="hits" />;
  const matched = sum && !search ? sum : shown, least = partly && matched === shown ? 'at least ' : ''; // frames left out may match as well
  const shares = f.right
    ? <b>{least}{percent(share(matched.total, whole.left))} → {percent(share(matched.rightTotal, whole.right))}</b>
    : <>{least}<b>{percent(share(matched.total, whole.left))}</b> · {valueWriter(type)(matched.total)}</>;
  const many = shown.hits.length;
  return (
    <span class="hits num">
      <span class="cut" role="status">{search ? 'matched' : <span class="cut" title={readable(fn)}>{shorter(fn)[0]}</span>} {shares}
        {search && <span class="dim"> in {plural(names, 'function')}</span>}</span>
      {step && many > 0 && (
        <span class="steps" role="group" aria-label="Matches">
          <button class="clear" aria-label="Previous match" title="Previous match (N)" onClick={() => step(-1)}><Icon name="up" /></button>
          <span class="dim" role="status">{at ? `${exact(at.index + 1)} of ${exact(many)}` : plural(many, 'frame')}</span>
          <button class="clear" aria-label="Next match" title="Next match (n)" onClick={() => step(1)}><Icon name="down" /></button>
        </span>
      )}
      {!search && <button class="clear" aria-label="Clear highlight" onClick={() => go({ fn: '' })}><Icon name="close" /></button>}
    </span>
  );
}

function Choice<T extends string>({ label, value, of, set }: { label: string; value: T; of: [T, string][]; set: (v: T) => void }) {
  return (
    <label class="field" title={label}>
      <span>{label}</span>
      <select value={value} onChange={(e) => set(e.currentTarget.value as T)}>
        {of.map(([k, text]) => <option key={k} value={k}>{text}</option>)}
      </select>
    </label>
  );
}

/** The frames that the legend is about: the zoomed frame and all below it; in a sandwich the callers as well. */
function shownParts(of: Flame | Sandwich | null, zoom: string): Shown[] {
  if (!of) return [];
  if ('callers' in of) return [{ of: of.callees, focus: ROOT, weight: of.callees.self }, { of: of.callers, focus: ROOT, weight: of.callers.total }];
  return [{ of, focus: Math.max(ROOT, zoom ? findFrame(of, zoom) : ROOT), weight: of.self }];
}

function Legend({ paint, shown }: { paint: Paint; shown: Shown[] }) {
  const entries = useMemo(() => paint.legendOf?.(shown) ?? [], [paint, ...shown.flatMap((s) => [s.of, s.focus]), shown.length]);
  if (paint.scale) {
    const { from, to, colors } = paint.scale;
    if (from === '') return null;
    return (
      <div class="legend num" role="img" aria-label={`Colours from ${from} to ${to}`}>
        <span>{from}</span><span class="ramp">{colors.map((c) => <i key={c} style={{ background: c }} />)}</span><span>{to}</span>
      </div>
    );
  }
  if (entries.length === 0) return null;
  return (
    <ul class="legend" aria-label="Colours">
      {entries.map((l) => <li key={l.text}><i style={{ background: l.color }} /><span class="cut">{l.text}</span></li>)}
    </ul>
  );
}

/** That the picture is of a part, and the way back to the whole. */
function Note({ undo, patch, children }: { undo: string; patch: Patch; children: ComponentChildren }) {
  return (
    <div class="narrowed">
      <span>{children}</span>
      <button class="btn small" onClick={() => go(patch)}>{undo}</button>
    </div>
  );
}

interface HalvesProps {
  flame: Flame;
  both: Sandwich | null;
  sum: NamedRow | null; // of all frames, where the picture leaves some out
  exactness: Exactness;
  fn: string;
  zoom: string;
  type: string;
  whole: Whole;
  common: { paint: Paint; type: string; whole: Whole; maxNodes: number; lit: Uint8Array | null; onTarget: (n: string | null) => void };
  onMenu: (m: FrameMenu) => void;
}

/** Callers grow up, callees down, the function is between them. Both halves are as wide as its total. */
function Halves({ flame, both, sum, exactness, fn, zoom, type, whole, common, onMenu }: HalvesProps) {
  if (!both) {
    return (
      <div class="choose">
        <b>{!fn ? 'Choose a function' : sum || leavesOut(exactness) ? 'This function is not among the shown frames' : 'This function is not in this profile'}</b>
        <p class="dim">{fn ? <span class="said">{readable(fn)}</span> : 'A row of the table shows who calls it and what it calls.'}</p>
        {fn && <LoadAll of={exactness} />}
      </div>
    );
  }
  const { callers, callees } = both, total = sum?.total ?? callees.total[ROOT], right = sum?.rightTotal ?? callees.right?.total[ROOT] ?? 0;
  const write = valueWriter(type), up = zoom.startsWith(CALLER) && zoom.length === 8;
  return (
    <div class="halves">
      <div class="half" data-half="callers">
        <span class="tag">callers</span>
        {callers.depth > 1 ? (
          <FlameGraph {...common} flame={callers} about={fn} shape={UP} zoom={up ? zoom.slice(1) : ''} label="Callers"
            onZoom={(key) => go({ zoom: key && CALLER + key })} onMenu={onMenu} />
        ) : <p class="none">No callers</p>}
      </div>
      <div class="middle num">
        <b class="cut" title={readable(fn)}>{readable(fn)}</b>
        {callees.right ? (
          <span>total <b>{percent(share(total, whole.left))} → {percent(share(right, whole.right))}</b></span>
        ) : (
          <>
            <span>total <b>{write(total)}</b> {percent(share(total, whole.left))}</span>
            <span>self <b>{write(sum?.self ?? selfOf(flame, fn))}</b></span>
            {total > callees.total[ROOT] && <span>shown <b>{write(callees.total[ROOT])}</b></span>}
          </>
        )}
        {zoom && <button class="btn small" onClick={() => go({ zoom: '' })}>Show all</button>}
      </div>
      <div class="half" data-half="callees">
        <span class="tag">callees</span>
        {callees.depth > 1 ? (
          <FlameGraph {...common} flame={callees} about={fn} shape={DOWN} zoom={up ? '' : zoom} label="Callees"
            onZoom={(key) => go({ zoom: key })} onMenu={onMenu} />
        ) : <p class="none">No callees</p>}
      </div>
    </div>
  );
}

/** All that a function has for itself, in inner frames of a recursion too. */
function selfOf(f: Flame, name: string): number {
  const index = f.names.indexOf(name);
  return f.self.reduce((sum, v, i) => (f.name[i] === index ? sum + v : sum), 0);
}
