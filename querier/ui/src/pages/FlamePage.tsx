// One profile type of one service: its values over time, and everything that was counted, as a flame graph.
import { useEffect, useMemo } from 'preact/hooks';
import { address, go } from '../address';
import { ask, functionsOf, readMaxNodes, type Answer } from '../answer';
import { stats } from '../api/client';
import { totalOf } from '../flame/model';
import { parseQuery, queryText, selector, splitSpans, type Query } from '../query';
import { isGauge, rateOf, typeName, valueWriter } from '../ptype';
import { clock, type Range } from '../time';
import { shownRange } from '../ui/CopyLink';
import { Download } from '../ui/Download';
import { useLoad } from '../ui/load';
import { aboutText, agedClass, Loading, Space } from '../ui/Loading';
import { QueryBar } from '../ui/QueryBar';
import { Banner, Failure, LOOKS_AGAIN, NoMatch, Unreadable, useFirstProfile } from '../ui/states';
import { Start } from '../ui/Start';
import { lineColors, theme } from '../ui/theme';
import { Timeline } from '../ui/timeline';
import { useLines } from '../ui/useLines';
import { Workbench } from '../ui/Workbench';
import type { PageProps } from './page';

const TIMELINE_PX = 118;
export const zoomTo = ({ start, end }: Range): void => go({ from: String(start), until: String(end) });

export function FlamePage({ known, choice, query, range, period, again, refresh }: PageProps) {
  const { query: text, from, until, within, maxNodes } = address.value, nodes = readMaxNodes(maxNodes);
  const question = query && `${queryText(query)} ${period} ${nodes} ${within}`;
  const graph = useLoad<Answer>(question, again, (signal) => ask(question!, query!, range(), nodes, within, signal));

  const answer = graph.data, current = answer !== null && answer.question === question;
  const empty = answer !== null && totalOf(answer.flame) === 0 && answer.flame.count < 2;
  const none = choice.kind === 'nothing' || (current && empty);
  const past = useLoad(none ? 'stats' : null, again, stats);
  const nothingYet = none && past.data?.ingested === false;
  useFirstProfile(nothingYet, past.busy || graph.busy || known.busy, again, refresh);
  const shown = query ?? parseQuery(text);
  useEffect(() => {
    shownRange.value = answer?.range ?? null;
  }, [answer]);

  const content = () => {
    if (choice.kind === 'unreadable') return <Unreadable what="query" text={text} wayOut={() => go({ query: '', zoom: '', within: '' }, 'push', 'flame')} />;
    if (known.error && !question) return <Failure error={known.error} retry={refresh} />;
    if (graph.error && !current) return <Failure error={graph.error} retry={refresh} />;
    if (none && (past.data || past.error)) {
      if (nothingYet) return <Start title="No profiles yet" again={again} refresh={refresh}><p class="dim">{LOOKS_AGAIN}</p></Start>;
      return <NoMatch query={shown!} from={from} until={until} range={answer?.range ?? range()} newestMs={past.data?.newestMs ?? null} />;
    }
    if (!answer || empty || none) return <Space />;
    return <ProfileCard aged={agedClass(graph)} answer={answer} failed={graph.error} retry={refresh} />;
  };
  return (
    <>
      <QueryBar query={shown} catalog={known.data} answer={current && !none ? answer : null} failed={question && !graph.error ? known.error : null} />
      <main aria-busy={known.busy || graph.busy}>
        <Loading of={query ? graph : known} what={query ? aboutText(query, from, until, range()) : 'the list of services'} retry={refresh} />
        {query && !none && (current || !graph.error) && <Over query={query} period={period} range={range} again={again} quiet={graph.error !== null} />}
        {content()}
      </main>
    </>
  );
}

interface OverProps { query: Query; period: string; range: () => Range; again: number; quiet: boolean }

/** The values over time. It is an addition: where they cannot be had the profile is shown without. */
function Over({ query, period, range, again, quiet }: OverProps) {
  const { plain, spans } = splitSpans(query.matchers);
  const over = useLines({ type: query.type, selector: selector(plain) }, period, range, again);
  const { data } = over, type = data?.type ?? query.type, rate = rateOf(type), stroke = lineColors(theme.value)[0];
  const lines = useMemo(
    () => data && [{ label: typeName(data.type), color: stroke, ...(data.lines[0] ?? { values: new Array(data.buckets.count).fill(null) }) }],
    [data, stroke]);
  return (
    <section class={`card over${agedClass(over)}`} aria-label="Over time" aria-busy={over.busy}>
      <div class="head">
        <h2>{typeName(type)} over time</h2><span class="dim">{rate.what}{spans.length > 0 && ', of all spans'}</span>
        {over.error && !quiet ? <span class="warning">This did not load: {over.error.message}</span> : <span class="dim hint">drag to zoom</span>}
      </div>
      {data && lines ? (
        <Timeline label={`${typeName(type)} over time`} range={data.range} buckets={data.buckets} lines={lines}
          height={TIMELINE_PX} write={rate.write} onSelect={zoomTo} />
      ) : <div class="plot" style={{ height: `${TIMELINE_PX}px` }} />}
    </section>
  );
}

interface CardProps { aged: string; answer: Answer; failed: Error | null; retry: () => void }

function ProfileCard({ aged, answer, failed, retry }: CardProps) {
  const functions = useMemo(() => functionsOf(answer), [answer]);
  const { flame, maxNodes, path, lost } = answer, { type } = answer.query;
  return (
    <section class={`card work${aged}`} aria-labelledby="what">
      {failed && <Banner error={failed} kept={`shown is the answer of ${clock(answer.at)}`} retry={retry} />}
      <Workbench flame={flame} type={type} maxNodes={maxNodes} path={path} lost={lost} exactness={answer.exactness} functions={functions}>
        <h1 id="what">{typeName(type)}</h1>
        <span class="total num"><b>{valueWriter(type)(totalOf(flame))}</b> total</span>
        {isGauge(type) && <span class="dim">summed over all profiles of the range</span>}
        <Download flame={flame} type={type} exactness={answer.exactness} asked={[answer]} answer={answer} functions={functions} />
      </Workbench>
    </section>
  );
}
