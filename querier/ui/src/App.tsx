// The frame of all pages: what the address asks for, the catalog of what there is, refreshing, and keys.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { address, go, page } from './address';
import { catalog } from './api/client';
import { choose } from './choice';
import { serviceOf } from './query';
import { typeName } from './ptype';
import { isRelative, moveRange, readRange, scaleRange } from './time';
import { ComparePage } from './pages/ComparePage';
import { ExplorePage } from './pages/ExplorePage';
import { FlamePage } from './pages/FlamePage';
import { ServicesPage } from './pages/ServicesPage';
import { TypesPage } from './pages/TypesPage';
import { Header, VIEWS } from './ui/Header';
import { Help } from './ui/Help';
import { useKeys } from './ui/keys';
import { busy, useLoad } from './ui/load';
import { Unreadable } from './ui/states';
import { Toast } from './ui/toast';
import { useRepeat } from './ui/useRepeat';

const PAGES = { services: ServicesPage, types: TypesPage, flame: FlamePage, explore: ExplorePage, compare: ComparePage };
const MOVE = 0.5;

function changeRange(change: 'earlier' | 'later' | 'wider' | 'narrower'): boolean {
  const { from, until } = address.value, now = Date.now(), range = readRange(from, until, now);
  if (!range) return false;
  if (change === 'earlier') go(moveRange(range, -MOVE, now));
  else if (change === 'later') go(moveRange(range, MOVE, now));
  else go(scaleRange({ from, until }, range, change === 'wider' ? 2 : 0.5, now));
  return true;
}

export function App() {
  const { query: text, from, until, refresh: every } = address.value, Page = PAGES[page.value];
  const [again, setAgain] = useState(0), [help, setHelp] = useState(false);
  const refresh = () => setAgain((n) => n + 1);

  // "now" is looked at when a question is sent, so that no question is about an old one.
  const readable = readRange(from, until, Date.now()) !== null, period = `${from} ${until}`;
  const range = (now = Date.now()) => readRange(address.value.from, address.value.until, now) ?? { start: now - 3600e3, end: now };
  const known = useLoad(readable ? period : null, again, (signal) => {
    const { start, end } = range();
    return catalog(start, end, signal);
  });
  const choice = useMemo(() => choose(text, known.data), [text, known.data]);
  const query = choice.kind === 'query' && readable ? choice.query : null;
  useRepeat(isRelative(until) && /^\d+s$/.test(every) ? parseInt(every, 10) : 0, busy.value, again, refresh);

  const view = VIEWS.find((v) => v.to === page.value)!;
  useEffect(() => {
    const parts = [query && serviceOf(query), page.value === 'types' ? 'Profile types' : query && typeName(query.type)];
    const what = page.value === 'services' ? view.text : parts.filter(Boolean).join(' · ');
    document.title = what ? `${what} – Flametree` : 'Flametree';
  }, [query, page.value]);

  useKeys([
    { keys: ['['], text: 'Earlier', run: () => changeRange('earlier') },
    { keys: [']'], text: 'Later', run: () => changeRange('later') },
    { keys: ['-'], text: 'A longer time range', run: () => changeRange('wider') },
    { keys: ['+', '='], text: 'A shorter time range', run: () => changeRange('narrower') },
    { keys: ['r'], text: 'Refresh', run: refresh },
    ...VIEWS.map((v) => ({ keys: [v.key], text: v.text, run: () => go({}, 'push', v.to) })),
    { keys: ['?'], text: 'This list', run: () => setHelp(true) },
  ]);
  return (
    <>
      <Header onRefresh={refresh} onHelp={() => setHelp(true)} />
      {readable ? (
        <Page known={known} choice={choice} query={query} range={range} period={period} again={again} refresh={refresh} />
      ) : (
        <main><Unreadable what="time range" text={`from=${from} until=${until}`} wayOut={() => go({ from: 'now-1h', until: 'now' })} /></main>
      )}
      {help && <Help close={() => setHelp(false)} />}
      <Toast />
    </>
  );
}
