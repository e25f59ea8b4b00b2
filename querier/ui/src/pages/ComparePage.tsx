// Two profiles side by side in one graph: other labels, or other times, or both.
import { useEffect, useMemo } from 'preact/hooks';
import { address, go, type Patch } from '../address';
import { mergeRequest, readMaxNodes } from '../answer';
import { compared, type Catalog, type Exactness } from '../api/client';
import { choose } from '../choice';
import { buildFlame, ROOT, share, type Flame } from '../flame/model';
import { functionRows } from '../flame/stacks';
import { shorter } from '../flame/names';
import { points } from '../format';
import { rateOf, typeName, valueWriter } from '../ptype';
import { parseQuery, queryText, selector, splitSpans, withFilter, type Matcher, type Query } from '../query';
import { clock, rangeBefore, rangeText, readRange, type Range } from '../time';
import { shownRange, shownSides } from '../ui/CopyLink';
import { FilterEditor } from '../ui/FilterEditor';
import { Icon } from '../ui/icons';
import { useLoad } from '../ui/load';
import { Chips, QueryBar, rangeNow } from '../ui/QueryBar';
import { Banner, Failure, Unreadable, Waiting } from '../ui/states';
import { sideColors, theme } from '../ui/theme';
import { Timeline } from '../ui/timeline';
import { useLines } from '../ui/useLines';
import { Workbench } from '../ui/Workbench';
import type { PageProps } from './page';

const TIMELINE_PX = 96, MOVES = 4, LEAST_MOVE = 0.0005, DAY_MS = 86400e3;

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

interface Compared { question: string; type: string; at: number; maxNodes: number; flame: Flame; exactness: Exactness }

const PRESETS: [string, string][] = [['', 'Halves of the range'], ['before', 'The time before'], ['day', 'A day before'], ['week', 'A week before']];

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
    const { graph, exactness } = await compared(of(left), of(right), signal);
    return { question: question!, type: left.query.type, at: Date.now(), maxNodes: nodes, flame: buildFlame(graph, true), exactness };
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
    if (query && !sides && known.busy && !known.data) return <Waiting />; // old names are found among what there is
    if (query && !sides) {
      const text = [leftQuery, rightQuery, a.leftFrom, a.leftUntil, a.rightFrom, a.rightUntil].filter(Boolean).join(' ');
      return <Unreadable what="query or time of a side" text={text}
        wayOut={() => go({ leftQuery: '', rightQuery: '', leftFrom: '', leftUntil: '', rightFrom: '', rightUntil: '' })} />;
    }
    if (known.error && !query) return <Failure error={known.error} retry={refresh} />;
    if (choice.kind === 'nothing') return <p class="none">There are no profiles in this range.</p>;
    if (!sides) return <Waiting />;
    return (
      <>
        <div class="sides">
          <SideCard name="left" common={query!} sides={sides} times={times} again={again} total={current ? data.flame.total[ROOT] : null} />
          <SideCard name="right" common={query!} sides={sides} times={times} again={again} total={current ? data.flame.right!.total[ROOT] : null} />
        </div>
        {diff.error && !current && <Failure error={diff.error} retry={refresh} />}
        {(current || !diff.error) && (data ? <Result of={data} failed={diff.error} retry={refresh} /> : <Waiting />)}
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
      <QueryBar query={query ?? parseQuery(a.query)} catalog={known.data} answer={current ? data : null} failed={query ? known.error : null} ask={askBoth}>
        <label class="field">
          <span>Baseline</span>
          <select value={a.leftFrom || a.rightFrom ? 'own' : ''} onChange={(e) => preset(e.currentTarget.value)}>
            {(a.leftFrom || a.rightFrom) && <option value="own">Its own time</option>}
            {PRESETS.map(([k, text]) => <option key={k} value={k}>{text}</option>)}
          </select>
        </label>
        <button class="btn" onClick={swap}><Icon name="swap" />Swap</button>
      </QueryBar>
      <main aria-busy={known.busy || diff.busy}><h1 class="unseen">Compare</h1>{content()}</main>
    </>
  );
}

interface SideProps { name: Name; common: Query; sides: Sides; times: string; again: number; total: number | null }

function SideCard({ name, common, sides, times, again, total }: SideProps) {
  const { query, range, from, until } = sides[name], { plain } = splitSpans(query.matchers), rate = rateOf(query.type);
  const badge = name === 'left' ? 'A' : 'B', title = name === 'left' ? 'Baseline' : 'Comparison';
  const color = sideColors(theme.value)[name === 'left' ? 'a' : 'b'], extra = beyond(query, common);
  const view = { start: Math.min(range.start, sides.whole.start), end: Math.max(range.end, sides.whole.end) };
  const over = useLines({ type: query.type, selector: selector(plain) }, times, () => view, again), { data } = over;
  const lines = useMemo(
    () => data && [{ label: typeName(data.type), color, values: data.lines[0]?.values ?? new Array(data.buckets.count).fill(null) }],
    [data, color]);
  const set = (q: Query): void => go({ [`${name}Query`]: queryText(q) === queryText(common) ? '' : queryText(q), zoom: '' } as Patch);
  const select = ({ start, end }: Range): void => {
    // The other side keeps what it shows now.
    const other = name === 'left' ? sides.right : sides.left, its = name === 'left' ? 'right' : 'left';
    go({ [`${name}From`]: String(start), [`${name}Until`]: String(end), [`${its}From`]: other.from, [`${its}Until`]: other.until } as Patch);
  };
  return (
    <section class="card over" aria-label={title}>
      <div class="head">
        <h2><span class="badge" style={{ background: color }}>{badge}</span> {title}</h2>
        <Chips filters={extra} remove={(m) => set({ ...query, matchers: query.matchers.filter((o) => o !== m) })} />
        <FilterEditor query={query} range={rangeNow} add={(m) => set(withFilter(query, m))} label={`Filter ${badge}`} />
        <span class="dim num hint">{rangeText(from, until, range)}</span>
        {total !== null && <b class="num">{valueWriter(query.type)(total)}</b>}
      </div>
      {data && lines ? (
        <Timeline label={`${title} over time`} range={data.range} buckets={data.buckets} lines={lines} height={TIMELINE_PX}
          write={rate.write} band={{ range, color }} onSelect={select} />
      ) : (
        <div class="plot" style={{ height: `${TIMELINE_PX}px` }}>
          {over.error && <span class="warning">{over.error.message}</span>}
        </div>
      )}
    </section>
  );
}

interface Move { name: string; change: number }

/** The functions whose own share changed most, both ways. */
export function biggestMoves(f: Flame): Move[] {
  const left = f.total[ROOT], right = f.right?.total[ROOT] ?? 0;
  if (left === 0 || right === 0) return [];
  const all = functionRows(f).map((r) => ({ name: f.names[r.name], change: share(r.rightSelf, right) - share(r.self, left) }))
    .filter((m) => Math.abs(m.change) >= LEAST_MOVE).sort((a, b) => b.change - a.change);
  const up = all.filter((m) => m.change > 0).slice(0, MOVES), down = all.filter((m) => m.change < 0).slice(-MOVES).reverse();
  return [...up, ...down].sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

function Result({ of, failed, retry }: { of: Compared; failed: Error | null; retry: () => void }) {
  const moves = useMemo(() => biggestMoves(of.flame), [of.flame]), { flame, type } = of;
  const sides = [flame.total[ROOT] === 0 && 'The baseline', flame.right!.total[ROOT] === 0 && 'The comparison'].filter(Boolean);
  if (sides.length === 2) return <p class="none">Neither side has profiles.</p>;
  return (
    <>
      {moves.length > 0 && (
        <ul class="moves num" aria-label="Biggest changes of self share">
          <li class="dim" aria-hidden="true">Biggest moves of self share</li>
          {moves.map((m) => (
            <li key={m.name}><button class="btn" title={m.name} onClick={() => go({ fn: m.name })}>
              <span class="cut">{shorter(m.name)[0]}</span><b class={m.change > 0 ? 'rises' : 'falls'}>{points(m.change)}</b>
            </button></li>
          ))}
        </ul>
      )}
      <section class="card work" aria-label="Profile">
        {failed && <Banner error={failed} kept={`shown is the answer of ${clock(of.at)}`} retry={retry} />}
        {sides.length === 1 && <p class="none">{sides[0]} has no profiles: there is nothing to compare with.</p>}
        <Workbench flame={flame} type={type} maxNodes={of.maxNodes} path={[]} lost={false}>
          <h2>Change of {typeName(type)}</h2><span class="dim">from A to B, in percentage points of the total</span>
        </Workbench>
      </section>
    </>
  );
}
