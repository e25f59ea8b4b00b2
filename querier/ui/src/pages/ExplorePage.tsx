// The labels of a service: how much each value of a label uses, over time and in all, and two of them to compare.
import { useEffect, useMemo } from 'preact/hooks';
import { address, go } from '../address';
import { labelNames, labelValues } from '../api/client';
import { share } from '../flame/model';
import { change, percent, riseWords } from '../format';
import { isGauge, rateOf, typeName } from '../ptype';
import { filtersOf, parseQuery, queryText, selector, SERVICE, splitSpans, withFilter, type Matcher, type Query } from '../query';
import { mean, NEW, trend } from '../series';
import { shownRange } from '../ui/CopyLink';
import { Link } from '../ui/Link';
import { useLoad } from '../ui/load';
import { aboutText, agedClass, Loading, Space } from '../ui/Loading';
import { QueryBar } from '../ui/QueryBar';
import { Segments } from '../ui/Segments';
import { Failure, Outdated, Unreadable } from '../ui/states';
import { lineColors, theme } from '../ui/theme';
import { Timeline } from '../ui/timeline';
import { useLines, type Lines } from '../ui/useLines';
import { zoomTo } from './FlamePage';
import type { PageProps } from './page';

type Measure = 'mean' | 'max' | 'hist';
const MEASURES: [Measure, string][] = [['mean', 'Mean'], ['max', 'Max'], ['hist', 'Histogram']];
const MOST_VALUES = 40, COUNTED_LABELS = 30, DRAWN_LINES = 8, RISE = 0.08, TIMELINE_PX = 230, BINS = 24;

interface LabelCount { name: string; values: number | null }

async function countLabels(query: Query, range: { start: number; end: number }, signal: AbortSignal): Promise<LabelCount[]> {
  const of = selector([...splitSpans(query.matchers).plain, { label: '__profile_type__', op: '=', value: query.type }]);
  const names = (await labelNames(of, range, signal)).filter((n) => !n.startsWith('__') && n !== SERVICE);
  const count = async (name: string) => ({ name, values: (await labelValues(name, of, range, signal)).length });
  const counted = await Promise.all(names.slice(0, COUNTED_LABELS).map(count));
  return [...counted, ...names.slice(COUNTED_LABELS).map((name) => ({ name, values: null }))];
}

export function ExplorePage({ known, choice, query, range, period, again, refresh }: PageProps) {
  const { query: text, groupBy, measure: askedMeasure, from, until } = address.value, measure = MEASURES.find(([k]) => k === askedMeasure)?.[0] ?? 'mean';
  const labels = useLoad(query && `${queryText(query)} ${period}`, again, (signal) => countLabels(query!, range(), signal));
  // The label that tells most apart without being one of many: the first with two values or more.
  const by = groupBy || labels.data?.find((l) => l.values !== null && l.values > 1)?.name || labels.data?.[0]?.name || '';
  const wanted = query && by ? { type: query.type, selector: selector(splitSpans(query.matchers).plain), groupBy: by, limit: MOST_VALUES } : null;
  const over = useLines(wanted, period, range, again);
  useEffect(() => {
    shownRange.value = over.data?.range ?? null;
  }, [over.data]);

  const content = () => {
    if (choice.kind === 'unreadable') return <Unreadable what="query" text={text} wayOut={() => go({ query: '' })} />;
    const error = known.error ?? labels.error ?? over.error;
    if (error && !over.data) return <Failure error={error} retry={refresh} />;
    if (!query || !labels.data) return choice.kind === 'nothing' ? <p class="none">No profiles in this range</p> : <Space />;
    if (labels.data.length === 0) return <p class="none">No labels besides service_name</p>;
    return (
      <div class="labels">
        {error && <Outdated error={error} at={over.data!.buckets.now} retry={refresh} />}
        <nav class="card names" aria-label="Labels">
          {labels.data.map((l) => (
            <button key={l.name} aria-pressed={l.name === by} onClick={() => go({ groupBy: l.name, leftQuery: '', rightQuery: '' })}>
              <span class="cut">{l.name}</span><span class="dim num">{l.values ?? ''}</span>
            </button>
          ))}
        </nav>
        {over.data ? <Values aged={agedClass(over)} query={query} by={by} measure={measure} over={over.data} /> : <Space />}
      </div>
    );
  };
  const { leftQuery, rightQuery } = address.value, name = (q: string) => parseQuery(q)?.matchers.find((m) => m.label === by)?.value ?? '…';
  return (
    <>
      <QueryBar query={query ?? parseQuery(text)} catalog={known.data} answer={null} failed={query && over.data && !over.error ? known.error : null}>
        {leftQuery && rightQuery && (
          <Link class="btn primary" to="compare" patch={{ leftQuery, rightQuery }}>Compare {name(leftQuery)} → {name(rightQuery)}</Link>
        )}
      </QueryBar>
      <main aria-busy={labels.busy || over.busy}>
        <Loading of={!query ? known : by && !labels.stale ? over : labels}
          what={query ? aboutText(query, from, until, range()) + (by && ` by ${by}`) : 'the list of services'} retry={refresh} />
        {content()}
      </main>
    </>
  );
}

interface ValuesProps { aged: string; query: Query; by: string; measure: Measure; over: Lines }

function Values({ aged, query, by, measure, over }: ValuesProps) {
  const colors = lineColors(theme.value), rate = rateOf(over.type), gauge = isGauge(over.type);
  const lines = useMemo(
    () => over.lines.slice(0, DRAWN_LINES).map((l, i) => ({ label: l.group || '(none)', color: colors[i % colors.length], values: l.values, filling: l.filling })),
    [over, colors]);
  const value = (values: (number | null)[]) => (measure === 'max' ? values.reduce<number>((m, v) => Math.max(m, v ?? 0), 0) : mean(values, over.buckets));
  const most = Math.max(...over.lines.map((l) => value(l.values)), 0), all = over.lines.reduce((sum, l) => sum + l.sum, 0);
  const top = over.lines.reduce((m, l) => l.values.reduce<number>((n, v) => Math.max(n, v ?? 0), m), 0);
  const { leftQuery, rightQuery } = address.value;
  const only = (v: string): Matcher => ({ label: by, op: '=', value: v });
  return (
    <div class={`stack${aged}`}>
      <section class="card over">
        <div class="head">
          <h1>{typeName(over.type)} by {by}</h1><span class="dim">{rate.what}{over.lines.length > DRAWN_LINES && `, the ${DRAWN_LINES} largest`}</span>
          <ul class="legend">{lines.map((l) => <li key={l.label}><i style={{ background: l.color }} /><span class="cut">{l.label}</span></li>)}</ul>
        </div>
        <Timeline label={`${typeName(over.type)} by ${by}`} range={over.range} buckets={over.buckets} lines={lines}
          height={TIMELINE_PX} write={rate.write} onSelect={zoomTo} />
      </section>
      <section class="card">
        <div class="head"><h2>Values</h2><Segments label="Measure" value={measure} of={MEASURES} set={(m) => go({ measure: m })} /></div>
        <table class="values num">
          <thead><tr>
            <th scope="col">{by}</th><th scope="col"><span class="unseen">{measure === 'hist' ? 'Histogram' : 'Bar'}</span></th>
            <th scope="col">{measure === 'max' ? 'max' : 'mean'}</th>
            {['share', 'trend', 'filter', 'compare'].map((t) => <th key={t} scope="col">{t}</th>)}
          </tr></thead>
          <tbody>
            {over.lines.map((l, i) => {
              const moved = trend(l.values, over.buckets, gauge), q = queryText(withFilter(query, only(l.group))), shown = l.group || '(none)';
              return (
                <tr key={l.group}>
                  <th scope="row"><Link to="flame" patch={{ query: q }} title={`Flame graph of ${shown}`}>{shown}</Link></th>
                  <td class="bar">
                    {measure === 'hist' ? <Histogram values={l.values} most={top} color={colors[i % colors.length]} />
                      : <i style={{ width: `${share(value(l.values), most) * 100}%`, background: colors[i % colors.length] }} />}
                  </td>
                  <td><b>{rate.write(value(l.values))}</b></td>
                  <td class="dim">{gauge ? '–' : percent(share(l.sum, all))}</td>
                  <td class={moved !== null && moved !== NEW && moved > RISE ? 'rises' : 'dim'} title={riseWords(moved)}>{change(moved, true)}</td>
                  <td>
                    <button class="btn small" title={`Only ${shown}`} aria-label={`only ${shown}`} onClick={() => go({ query: q })}>only</button>{' '}
                    <button class="btn small" title={`Without ${shown}`} aria-label={`not ${shown}`}
                      onClick={() => go({ query: queryText(withFilter(query, { ...only(l.group), op: '!=' })) })}>not</button>
                  </td>
                  <td>
                    <button class="btn small a" aria-pressed={leftQuery === q} title="As baseline" aria-label={`Base: ${shown}`}
                      onClick={() => go({ leftQuery: q }, 'replace')}>Base</button>{' '}
                    <button class="btn small b" aria-pressed={rightQuery === q} title="As comparison" aria-label={`Comp.: ${shown}`}
                      onClick={() => go({ rightQuery: q }, 'replace')}>Comp.</button>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
        {over.lines.length === 0 && <p class="none">No profile in this range{filtersOf(query).length > 0 && ' matches the filters'}.</p>}
        {over.lines.length === MOST_VALUES && <p class="none">Only the {MOST_VALUES} largest are shown.</p>}
      </section>
    </div>
  );
}

/** How often the line was how high, from 0 on the left to the highest of all on the right. */
function Histogram({ values, most, color }: { values: (number | null)[]; most: number; color: string }) {
  const counts = new Array<number>(BINS).fill(0);
  for (const v of values) if (v !== null && most > 0) counts[Math.min(BINS - 1, Math.floor((v / most) * BINS))]++;
  const tallest = Math.max(...counts, 1);
  return (
    <svg class="histogram" viewBox={`0 0 ${BINS * 10} 24`} preserveAspectRatio="none" role="img" aria-label="Histogram of the values over time">
      {counts.map((n, i) => {
        const h = Math.max(2, (n / tallest) * 24);
        return n > 0 && <rect key={i} x={i * 10 + 1} width="8" y={24 - h} height={h} fill={color} />;
      })}
    </svg>
  );
}
