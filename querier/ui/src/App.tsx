// The page: what is asked (address, catalog), the answer (one flame graph), and what to say when there is none.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { address, go } from './address';
import { MAX_NODES, type Answer } from './answer';
import { catalog, merged, stats } from './api/client';
import { choose } from './choice';
import { parseQuery, queryText, selector, serviceOf } from './query';
import { typeName } from './ptype';
import { isRelative, readRange } from './time';
import { buildFlame, ROOT } from './flame/model';
import { useLoad } from './ui/load';
import { Header } from './ui/Header';
import { QueryBar } from './ui/QueryBar';
import { ProfileCard } from './ui/ProfileCard';
import { Failure, NoMatch, NothingYet, Unreadable, Waiting } from './ui/states';

const FIRST_PROFILE_POLL_S = 5;

/** Asks again every so many seconds after the last answer; not while the page is hidden. */
function useRepeat(seconds: number, busy: boolean, again: number, refresh: () => void): void {
  useEffect(() => {
    if (seconds === 0 || busy) return undefined;
    let due = false;
    const refreshIfSeen = () => {
      if (due && !document.hidden) refresh();
    };
    const timer = setTimeout(() => {
      due = true;
      refreshIfSeen();
    }, seconds * 1e3);
    document.addEventListener('visibilitychange', refreshIfSeen);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', refreshIfSeen);
    };
  }, [seconds, busy, again]);
}

export function App() {
  const { query: text, from, until, zoom, refresh: every } = address.value;
  const [again, setAgain] = useState(0);
  const refresh = () => setAgain((n) => n + 1);

  // "now" is looked at when a question is sent, so that no question is about an old one.
  const readable = readRange(from, until, Date.now());
  const rangeNow = () => readRange(from, until, Date.now())!;
  const known = useLoad(readable && `${from} ${until}`, again, (signal) => {
    const { start, end } = rangeNow();
    return catalog(start, end, signal);
  });
  const choice = useMemo(() => choose(text, known.data), [text, known.data]);
  const query = choice.kind === 'query' ? choice.query : null;
  const question = query && readable && `${queryText(query)} ${from} ${until}`;
  const graph = useLoad<Answer>(question, again, async (signal) => {
    const range = rangeNow(), asked = query!;
    const request = { type: asked.type, selector: selector(asked.matchers), ...range, maxNodes: MAX_NODES };
    const { graph: wire, exactness } = await merged(request, signal);
    return { question: question!, query: asked, range, at: Date.now(), flame: buildFlame(wire), exactness };
  });

  const answer = graph.data, current = answer !== null && answer.question === question;
  const empty = answer !== null && answer.flame.total[ROOT] === 0;
  const none = choice.kind === 'nothing' || (current && empty);
  const past = useLoad(none ? 'stats' : null, again, stats);
  const nothingYet = none && past.data?.ingested === false;
  const busy = known.busy || graph.busy;
  const interval = isRelative(until) && /^\d+s$/.test(every) ? parseInt(every, 10) : 0;
  useRepeat(nothingYet ? FIRST_PROFILE_POLL_S : interval, busy, again, refresh);

  const shown = query ?? parseQuery(text);
  useEffect(() => {
    const what = query ? [serviceOf(query), typeName(query.type)].filter(Boolean).join(' · ') : '';
    document.title = what ? `${what} – Flametree` : 'Flametree';
  }, [query]);

  const content = () => {
    if (!readable) return <Unreadable what="time range" text={`from=${from} until=${until}`} wayOut={() => go({ from: 'now-1h', until: 'now' })} />;
    if (choice.kind === 'unreadable') return <Unreadable what="query" text={text} wayOut={() => go({ query: '', zoom: '' })} />;
    if (known.error && !question) return <Failure error={known.error} retry={refresh} />;
    if (graph.error && !current) return <Failure error={graph.error} retry={refresh} />;
    if (none && (past.data || past.error)) {
      if (nothingYet) return <NothingYet every={FIRST_PROFILE_POLL_S} />;
      return <NoMatch query={shown!} from={from} until={until} range={answer?.range ?? readable} newestMs={past.data?.newestMs ?? null} />;
    }
    if (!answer || empty || none) return <Waiting />;
    return (
      <ProfileCard answer={answer} failed={graph.error} retry={refresh} zoom={zoom}
        onZoom={(key) => go({ zoom: key })} />
    );
  };

  return (
    <>
      <Header from={from} until={until} every={every} busy={busy} onRefresh={refresh} />
      <QueryBar query={shown} catalog={known.data} answer={current && !none ? answer : null} failed={question ? known.error : null} />
      <main aria-busy={busy}>{content()}</main>
    </>
  );
}
