// Two profiles side by side in one graph: other labels, or other times, or both.
import { useEffect, useMemo } from 'preact/hooks';
import { address, go, type Patch } from '../address';
import { mergeRequest, readMaxNodes } from '../answer';
import { compared, functions, series, type Catalog, type Exactness, type NamedRow } from '../api/client';
import { choose } from '../choice';
import { buildFlame, ROOT, type Flame } from '../flame/model';
import { readable, REST, shorter } from '../flame/names';
import { amountChange, byAmount, changeBy, normOf, shareChange, type Norm, type NormKind } from '../flame/norm';
import { functionRows, type FunctionRow } from '../flame/stacks';
import { nearestRange } from '../nearest';
import { isGauge, rateOf, typeInText, typeName, valueWriter } from '../ptype';
import { parseQuery, queryText, selector, splitSpans, withFilter, type Matcher, type Query } from '../query';
import { bucketsOf } from '../series';
import { clock, rangeBefore, rangeText, readRange, type Range } from '../time';
import { shownRange, shownSides } from '../ui/CopyLink';
import { Download } from '../ui/Download';
import { FilterEditor } from '../ui/FilterEditor';
import { Icon } from '../ui/icons';
import { useLoad, type Loaded } from '../ui/load';
import { aboutText, agedClass, Loading, Space } from '../ui/Loading';
import { Chips, QueryBar, rangeNow } from '../ui/QueryBar';
import { Segments } from '../ui/Segments';
import { Banner, Failure, Unreadable } from '../ui/states';
import { sideColors, theme } from '../ui/theme';
import { Timeline } from '../ui/timeline';
import { useLines, type Lines } from '../ui/useLines';
import { Workbench } from '../ui/Workbench';
import type { PageProps } from './page';

const TIMELINE_PX = 96, MOVES = 4, LEAST_MOVE = 0.0005, ALIKE = 0.01, DAY_MS = 86400e3;

type Name = 'left' | 'right';
interface Side { query: Query; range: Range; from: string; until: string }

const same = (a: Matcher) => (b: Matcher) => a.label === b.label && a.op === b.op && a.value === b.value;
const beyond = (q: Query, common: Query): Matcher[] => q.matchers.filter((m) => !common.matchers.some(same(m)));

/**
 * The part of the range that a side is about. Without any times: the whole range for both if the queries differ,
 * otherwise its first half against its second.
 */
function sideRange(name: Name, whole: Range, queriesDiffer: boolean, now: number): Omit<Side, 'query'> | null {
  const a = address.value, [from, until] = name === 'left' ? [a.leftFrom, a.leftUntil] : [a.rightFrom, a.rightUntil];
  if (from || until) {
    const range = readRange(from || a.from, until || a.until, now);
    return range && { range, from: from || a.from, until: until || a.until };
  }
  const timed = a.leftFrom || a.leftUntil || a.rightFrom || a.rightUntil;
  if (timed || queriesDiffer) return { range: whole, from: a.from, until: a.until };
  const middle = Math.round((whole.start + whole.end) / 2);
  const range = name === 'left' ? { start: whole.start, end: middle } : { start: middle, end: whole.end };
  return { range, from: String(Math.round(range.start)), until: String(Math.round(range.end)) };
}

interface Sides { left: Side; right: Side; whole: Range }

/** All times are of one now: a side that ends where the other begins does so to the millisecond. */
function readSides(query: Query, range: (now: number) => Range, catalog: Catalog | null): Sides | null {
  const a = address.value, now = Date.now(), whole = range(now);
  const of = (text: string): Query | null => {
    if (!text) return query;
    const c = choose(text, catalog);
    return c.kind === 'query' ? c.query : null;
  };
  const left = of(a.leftQuery), right = of(a.rightQuery);
  if (!left || !right) return null;
  const differ = queryText(left) !== queryText(right), l = sideRange('left', whole, differ, now), r = sideRange('right', whole, differ, now);
  return l && r && { left: { query: left, ...l }, right: { query: right, ...r }, whole };
}

/** Both sides at the very times that they have now. */
const fixedTimes = ({ left, right }: Sides): Patch => ({
  leftFrom: String(Math.round(left.range.start)), leftUntil: String(Math.round(left.range.end)),
  rightFrom: String(Math.round(right.range.start)), rightUntil: String(Math.round(right.range.end)),
});

interface Compared {
  question: string; type: string; at: number; maxNodes: number; flame: Flame; exactness: Exactness;
  sides: Sides;
  functions: (signal: AbortSignal) => Promise<NamedRow[]>;
  means: Record<Name, number | null>; // of all profiles of a side, if values are states and not amounts
}

/** The mean of a gauge over a range: its sum says how many profiles there were. */
async function meanOf({ query, range }: Side, signal: AbortSignal): Promise<number | null> {
  if (!isGauge(query.type)) return null;
  const buckets = { ...bucketsOf(range), first: range.end, step: range.end - range.start, count: 1 };
  const found = await series({ type: query.type, selector: selector(splitSpans(query.matchers).plain), buckets, gauge: true }, signal);
  return found[0]?.points[0]?.v ?? null;
}

/** The factor from a stored value of a side to an amount per second, or to a mean. */
function perOf(of: Compared, name: Name): number {
  const { query: { type }, range } = of.sides[name], { factor } = rateOf(type);
  if (!isGauge(type)) return (factor * 1e3) / (range.end - range.start);
  const total = (name === 'left' ? of.flame : of.flame.right!).total[ROOT], mean = of.means[name];
  return mean !== null && total > 0 ? (factor * mean) / total : factor;
}

const NORMS: [NormKind, string][] = [['share', 'Share'], ['abs', 'Absolute']];
const NORM_WORDS: Record<NormKind, string> = {
  share: 'Colours show the change of share of the total. When one function grows, the shares of all others fall.',
  abs: 'Colours show how much more or less each function uses. What uses as much as before stays grey.',
};

/** Of the same instances amounts are what counts; other labels may be other numbers of instances, so their shares are compared. */
function normKind(text: string, sides: Sides): NormKind {
  if (text === 'share' || text === 'abs') return text;
  return queryText(sides.left.query) === queryText(sides.right.query) ? 'abs' : 'share';
}

const PRESETS: [string, string][] = [
  ['', 'First vs second half'], ['before', 'Previous period'], ['day', 'Same time yesterday'], ['week', 'Same time last week'],
];

export function ComparePage({ known, choice, query: asked, range, period, again, refresh }: PageProps) {
  const a = address.value, nodes = readMaxNodes(a.maxNodes), { leftQuery, rightQuery } = a;
  const own = useMemo(() => {
    const c = !a.query && (leftQuery || rightQuery) ? choose(leftQuery || rightQuery, known.data) : choice;
    return c.kind === 'query' ? c.query : null;
  }, [a.query, leftQuery, rightQuery, known.data, choice]);
  const query = asked && own, times = `${period} ${a.leftFrom} ${a.leftUntil} ${a.rightFrom} ${a.rightUntil}`;
  const question = query && `${queryText(query)} ${leftQuery} ${rightQuery} ${times} ${nodes}`;
  // Ranges move with the clock: they are read again with every question, not with every drawing.
  const sides = useMemo(() => query && readSides(query, range, known.data), [question, again, known.data !== null]);
  const diff = useLoad<Compared>(sides && question, again, async (signal) => {
    const { left, right } = sides!;
    const of = (side: Side) => mergeRequest(side.query, side.range, nodes);
    const [{ graph, exactness }, l, r] = await Promise.all([compared(of(left), of(right), signal), meanOf(left, signal), meanOf(right, signal)]);
    return {
      question: question!, type: left.query.type, at: Date.now(), maxNodes: nodes, flame: buildFlame(graph, true), exactness,
      sides: sides!, functions: (s) => functions(of(left), of(right), s), means: { left: l, right: r },
    };
  });
  const { data } = diff, current = data !== null && data.question === question;
  useEffect(() => {
    shownRange.value = sides?.whole ?? null;
    shownSides.value = sides ? fixedTimes(sides) : {};
    return () => {
      shownSides.value = {};
    };
  }, [sides]);

  const content = () => {
    if (choice.kind === 'unreadable') return <Unreadable what="query" text={a.query} wayOut={() => go({ query: '' })} />;
    if (query && !sides && known.busy && !known.data) return <Space />; // old names are found among what there is
    if (query && !sides) {
      const text = [leftQuery, rightQuery, a.leftFrom, a.leftUntil, a.rightFrom, a.rightUntil].filter(Boolean).join(' ');
      return <Unreadable what="query or time of a side" text={text}
        wayOut={() => go({ leftQuery: '', rightQuery: '', leftFrom: '', leftUntil: '', rightFrom: '', rightUntil: '' })} />;
    }
    if (known.error && !query) return <Failure error={known.error} retry={refresh} />;
    if (choice.kind === 'nothing') return <p class="none">There are no profiles in this range.</p>;
    if (!sides) return <Space />;
    return (
      <>
        <Charts common={query!} sides={sides} times={times} again={again} of={current ? data.flame : null} />
        {diff.error && !current && <Failure error={diff.error} retry={refresh} />}
        {(current || !diff.error) && (data ? <Result aged={agedClass(diff)} of={data} again={again} failed={diff.error} retry={refresh} /> : <Space />)}
      </>
    );
  };
  /** Another service or type is for both sides; what each has of its own stays. */
  const askBoth = (q: Query) => {
    const with_ = (side: Query) => {
      const extra = beyond(side, query!);
      return extra.length > 0 ? queryText({ ...q, matchers: [...q.matchers, ...extra.filter((m) => !q.matchers.some(same(m)))] }) : '';
    };
    go({ query: queryText(q), leftQuery: sides ? with_(sides.left.query) : '', rightQuery: sides ? with_(sides.right.query) : '', zoom: '' });
  };
  const preset = (kind: string) => {
    const whole = range(), by = kind === 'day' ? DAY_MS : kind === 'week' ? 7 * DAY_MS : whole.end - whole.start;
    const left = kind ? rangeBefore(a, whole, by) : { from: '', until: '' };
    go({ leftFrom: left.from, leftUntil: left.until, rightFrom: '', rightUntil: '' });
  };
  const swap = () => go({
    leftQuery: rightQuery, rightQuery: leftQuery,
    ...(sides && { leftFrom: sides.right.from, leftUntil: sides.right.until, rightFrom: sides.left.from, rightUntil: sides.left.until }),
  });
  return (
    <>
      <QueryBar query={query ?? parseQuery(a.query)} catalog={known.data} answer={current ? data : null} failed={query && !diff.error ? known.error : null} ask={askBoth}>
        <label class="field">
          <span>Baseline</span>
          <select value={a.leftFrom || a.rightFrom ? 'own' : ''} onChange={(e) => preset(e.currentTarget.value)}>
            {(a.leftFrom || a.rightFrom) && <option value="own">Custom</option>}
            {PRESETS.map(([k, text]) => <option key={k} value={k}>{text}</option>)}
          </select>
        </label>
        <button class="btn" onClick={swap}><Icon name="swap" />Swap</button>
      </QueryBar>
      <main aria-busy={known.busy || diff.busy}>
        <h1 class="unseen">Compare</h1>
        <Loading of={query ? diff : known} what={query ? `the change of ${aboutText(query, a.from, a.until, range())}` : 'the list of services'} retry={refresh} />
        {content()}
      </main>
    </>
  );
}

interface ChartsProps { common: Query; sides: Sides; times: string; again: number; of: Flame | null }

/** Both sides over time, on one scale, so that heights can be compared. */
function Charts({ common, sides, times, again, of }: ChartsProps) {
  const useSide = (name: Name) => {
    const { query, range } = sides[name];
    const view = { start: Math.min(range.start, sides.whole.start), end: Math.max(range.end, sides.whole.end) };
    return useLines({ type: query.type, selector: selector(splitSpans(query.matchers).plain) }, times, () => view, again);
  };
  const left = useSide('left'), right = useSide('right'), both = left.data?.type === right.data?.type;
  const top = Math.max(0, ...[left, right].flatMap((o) => (both && o.data?.lines[0]?.values) || []).map((v) => v ?? 0));
  return (
    <div class="sides">
      <SideCard name="left" common={common} sides={sides} over={left} top={top} total={of && of.total[ROOT]} />
      <SideCard name="right" common={common} sides={sides} over={right} top={top} total={of && of.right!.total[ROOT]} />
    </div>
  );
}

const TITLES: Record<Name, string> = { left: 'Baseline', right: 'Comparison' };

/** The times of a side; the other one keeps what it shows now. */
function setTimes(sides: Sides, name: Name, { start, end }: Range): void {
  const its = name === 'left' ? 'right' : 'left', other = sides[its];
  go({ [`${name}From`]: String(start), [`${name}Until`]: String(end), [`${its}From`]: other.from, [`${its}Until`]: other.until } as Patch);
}

interface SideProps { name: Name; common: Query; sides: Sides; over: Loaded<Lines>; top: number; total: number | null }

function SideCard({ name, common, sides, over, top, total }: SideProps) {
  const { query, range, from, until } = sides[name], rate = rateOf(query.type), badge = name === 'left' ? 'A' : 'B', title = TITLES[name];
  const color = sideColors(theme.value)[name === 'left' ? 'a' : 'b'], extra = beyond(query, common);
  const { data } = over;
  const lines = useMemo(
    () => data && [{ label: typeName(data.type), color, ...(data.lines[0] ?? { values: new Array(data.buckets.count).fill(null) }) }],
    [data, color]);
  const set = (q: Query): void => go({ [`${name}Query`]: queryText(q) === queryText(common) ? '' : queryText(q), zoom: '' } as Patch);
  return (
    <section class={`card over${agedClass(over)}`} aria-label={title} aria-busy={over.busy}>
      <div class="head">
        <h2><span class="badge" style={{ background: color }}>{badge}</span> {title}</h2>
        <Chips filters={extra} remove={(m) => set({ ...query, matchers: query.matchers.filter((o) => o !== m) })} />
        <FilterEditor query={query} range={rangeNow} add={(m) => set(withFilter(query, m))} label={`Filter ${badge}`} />
        <span class="dim num hint">{rangeText(from, until, range)}</span>
        {total !== null && <b class="num">{valueWriter(query.type)(total)}</b>}
      </div>
      {data && lines ? (
        <Timeline label={`${title} over time`} range={data.range} buckets={data.buckets} lines={lines} height={TIMELINE_PX} top={top}
          write={rate.write} band={{ range, color }} onSelect={(to) => setTimes(sides, name, to)} />
      ) : (
        <div class="plot" style={{ height: `${TIMELINE_PX}px` }}>
          {over.error && total !== null && <span class="warning">{over.error.message}</span>}
        </div>
      )}
    </section>
  );
}

interface Move { name: string; change: number; row: FunctionRow }

/** The functions whose own part changed most, both ways. */
export function biggestMoves(f: Flame, norm: Norm): Move[] {
  const all = functionRows(f).filter((row) => f.names[row.name] !== REST).map((row) => ({ name: f.names[row.name], change: changeBy(norm, row.self, row.rightSelf), row }))
    .filter((m) => Math.abs(m.change) >= LEAST_MOVE).sort((a, b) => b.change - a.change);
  const up = all.filter((m) => m.change > 0).slice(0, MOVES), down = all.filter((m) => m.change < 0).slice(-MOVES).reverse();
  return [...up, ...down].sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

const alike = (a: Move) => (b: Move) => Math.abs(a.change - b.change) <= ALIKE * Math.abs(b.change);

/**
 * The functions that changed most with all that they call, both ways; each counts once on a stack. One without a self of
 * its own is in no list of selves, however much it grew. Callers change as much as what they call: of functions that
 * changed alike only the one with the least total is named, and none if a chip of a self says as much.
 */
export function biggestTotals(f: Flame, norm: Norm, told: Move[]): Move[] {
  const all = functionRows(f).filter((row) => f.names[row.name] !== REST).map((row) => ({ name: f.names[row.name], change: changeBy(norm, row.total, row.rightTotal), row }))
    .filter((m) => Math.abs(m.change) >= LEAST_MOVE);
  all.sort((a, b) => Math.abs(b.change) - Math.abs(a.change) || a.row.total + a.row.rightTotal - b.row.total - b.row.rightTotal);
  const found: Move[] = [];
  for (const m of all) {
    if (told.some(alike(m)) || found.some(alike(m))) continue;
    if (found.filter((o) => o.change > 0 === m.change > 0).length < MOVES) found.push(m);
  }
  return found;
}

interface MovesProps { of: 'self' | 'total'; moves: Move[]; aged: string; write: (m: Move) => string }

function Moves({ of, moves, aged, write }: MovesProps) {
  if (moves.length === 0) return null;
  const label = `Biggest changes of ${of}`;
  return (
    <ul class={`${of === 'self' ? 'moves' : 'shifts'} num${address.value.palette === 'classic' ? ' classic' : ''}${aged}`} aria-label={label}>
      <li class="dim" aria-hidden="true">{label}</li>
      {moves.map((m) => (
        <li key={m.name}><button class="btn" title={readable(m.name)} onClick={() => go({ fn: m.name })}>
          <span class="cut">{shorter(m.name)[0]}</span>
          <b class={m.change > 0 ? 'rises' : 'falls'}>{write(m)}</b>
        </button></li>
      ))}
    </ul>
  );
}

/** A side without profiles, and where its query has some. */
function EmptySide({ name, sides, again }: { name: Name; sides: Sides; again: number }) {
  const { query, range, from, until } = sides[name], question = `${queryText(query)} ${range.start} ${range.end}`;
  const near = useLoad(question, again, async (signal) => ({ question, found: await nearestRange(query, range, signal) })), { data } = near;
  const found = data?.question === question && data.found, title = TITLES[name];
  return (
    <div class="head empty">
      <span><b>{title}: no profiles.</b> {rangeText(from, until, range)}</span>
      {found ? (
        <button class="btn small" onClick={() => setTimes(sides, name, found)}>Use the nearest: {rangeText(String(found.start), String(found.end), found)}</button>
      ) : (
        <span class="dim">{near.busy ? 'Looking for the nearest profiles …' : near.error ? near.error.message : 'This query has no profiles at any other time.'}</span>
      )}
    </div>
  );
}

interface ResultProps { aged: string; of: Compared; again: number; failed: Error | null; retry: () => void }

function Result({ aged, of, again, failed, retry }: ResultProps) {
  const kind = normKind(address.value.norm, of.sides), { type } = of;
  const norm = useMemo(() => normOf(kind, type, of.flame, { left: perOf(of, 'left'), right: perOf(of, 'right') }), [of, kind]);
  const flame = useMemo(() => (kind === 'abs' && !norm.empty ? byAmount(of.flame, norm) : of.flame), [norm]);
  const moves = useMemo(() => biggestMoves(flame, norm), [norm]), totals = useMemo(() => biggestTotals(flame, norm, moves), [norm]), change = kind === 'abs' ? amountChange : shareChange;
  const whole = { left: flame.total[ROOT], right: flame.right!.total[ROOT] };
  const empty = (['left', 'right'] as const).filter((name) => whole[name] === 0);
  return (
    <>
      {empty.length > 0 && (
        <section class="card" role="status" aria-label="No profiles">
          {empty.map((name) => <EmptySide key={name} name={name} sides={of.sides} again={again} />)}
        </section>
      )}
      <Moves of="self" moves={moves} aged={aged} write={(m) => change(norm, m.row.self, m.row.rightSelf, whole)} />
      <Moves of="total" moves={totals} aged={aged} write={(m) => change(norm, m.row.total, m.row.rightTotal, whole)} />
      {empty.length < 2 && (
        <section class={`card work${aged}`} aria-label="Profile">
          {failed && <Banner error={failed} kept={`shown is the answer of ${clock(of.at)}`} retry={retry} />}
          <Workbench flame={flame} type={type} maxNodes={of.maxNodes} path={[]} lost={false} exactness={of.exactness} functions={of.functions} norm={norm}>
            <h2>Change of {typeInText(type)}</h2>
            <Download flame={flame} type={type} exactness={of.exactness} asked={[of.sides.left, of.sides.right]} functions={of.functions} />
            {!norm.empty && (
              <>
                <Segments label="Compare by" value={kind} of={NORMS} set={(v) => go({ norm: v })} />
                <span class="dim">{NORM_WORDS[kind]}</span>
              </>
            )}
          </Workbench>
        </section>
      )}
    </>
  );
}
