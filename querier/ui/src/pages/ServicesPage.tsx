// All services at one glance: who uses how much, and who changed.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { address, go } from '../address';
import { catalog, stats, type Catalog } from '../api/client';
import { onlyOurs, OURSELVES, typesOf } from '../choice';
import { isGauge, nameTypes, preferredType, rateOf, typeInText, typeName } from '../ptype';
import { queryText, SERVICE } from '../query';
import { GONE, mean, NEW, trend } from '../series';
import { change, riseWords } from '../format';
import { shownRange } from '../ui/CopyLink';
import { Icon } from '../ui/icons';
import { useKeys } from '../ui/keys';
import { Link } from '../ui/Link';
import { Losses } from '../ui/Losses';
import { useLoad } from '../ui/load';
import { Start } from '../ui/Start';
import { Failure, LOOKS_AGAIN, NoMatch, Outdated, useFirstProfile, Waiting } from '../ui/states';
import { sideColors, theme } from '../ui/theme';
import { Spark } from '../ui/timeline';
import { useLines, type GroupLine } from '../ui/useLines';
import type { PageProps } from './page';

const SORTS: [string, string][] = [['use', 'Most used'], ['rise', 'Biggest rise'], ['name', 'Name']];
const RISE = 0.08; // a smaller change is not worth a colour
const KEY = 'flametree-favourites', MOST_SERVICES = 500;

function stored(): Set<string> {
  try {
    const list: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return new Set(Array.isArray(list) ? list.filter((s) => typeof s === 'string') : []);
  } catch {
    return new Set(); // storage is forbidden, or holds something else
  }
}
const favourites = signal(stored());

function toggleFavourite(service: string): void {
  const next = new Set(favourites.value);
  if (!next.delete(service)) next.add(service);
  favourites.value = next;
  try {
    localStorage.setItem(KEY, JSON.stringify([...next]));
  } catch {
    // lasts as long as the page
  }
}

const DAY_MS = 86400e3;

/** Services of all times, or as far back as the server answers: a range has a greatest length. */
async function everThere(signal: AbortSignal): Promise<Catalog> {
  const { oldestMs } = await stats(signal), now = Date.now(), oldest = Math.min(oldestMs ?? now, now - DAY_MS);
  for (const start of [oldest, now - 30 * DAY_MS]) {
    const found = await catalog(Math.max(start, oldest), now, signal).catch(() => null);
    if (found || signal.aborted) return found ?? new Map();
  }
  return catalog(now - DAY_MS, now, signal);
}

interface Card { service: string; line: GroupLine | null; use: number; rise: number | null }

function sorted(cards: Card[], sort: string): Card[] {
  const star = (c: Card) => (favourites.value.has(c.service) ? 1 : 0), byName = (a: Card, b: Card) => (a.service < b.service ? -1 : 1);
  const by: Record<string, (a: Card, b: Card) => number> = {
    use: (a, b) => b.use - a.use, rise: (a, b) => (b.rise ?? -Infinity) - (a.rise ?? -Infinity) || 0, name: () => 0,
  };
  return [...cards].sort((a, b) => star(b) - star(a) || (by[sort] ?? by.use)(a, b) || byName(a, b));
}

export function ServicesPage({ known, range, period, again, refresh }: PageProps) {
  const { type: asked, filter, from, until } = address.value, sort = SORTS.some(([k]) => k === address.value.sort) ? address.value.sort : 'use';
  const input = useRef<HTMLInputElement>(null);
  const types = nameTypes(known.data ? typesOf(known.data, null) : []), type = asked || preferredType(types.map((t) => t.id));
  const lines = useLines(type ? { type, selector: '{}', groupBy: SERVICE, limit: MOST_SERVICES } : null, period, range, again);
  const { data } = lines, of = data?.type ?? type;
  const none = known.data !== null && known.data.size === 0, past = useLoad(none ? 'stats' : null, again, stats);
  const nothingYet = none && past.data?.ingested === false;
  // Others may have profiles outside the range.
  const alone = known.data !== null && onlyOurs(known.data), ever = useLoad(alone ? 'ever' : null, 0, everThere);
  const oursOnly = alone && ever.data !== null && onlyOurs(ever.data);
  useFirstProfile(nothingYet || alone, past.busy || known.busy, again, refresh);
  useEffect(() => {
    shownRange.value = data?.range ?? null;
  }, [data]);
  useKeys([{ keys: ['/'], text: 'Filter services', run: () => input.current?.focus() }]);

  const cards = useMemo(() => [...(known.data?.keys() ?? [])].map((service): Card => {
    const line = data?.lines.find((l) => l.group === service) ?? null;
    return { service, line, use: line ? mean(line.values, data!.buckets) : -1, rise: line && trend(line.values, data!.buckets, isGauge(data!.type)) };
  }), [known.data, data]);
  const shown = sorted(cards.filter((c) => c.service.toLowerCase().includes(filter.toLowerCase())), sort);
  const content = () => {
    if (known.error && !known.data) return <Failure error={known.error} retry={refresh} />;
    if (none && (past.data || past.error)) {
      if (nothingYet) return <Start title="No profiles yet" again={again} refresh={refresh}><p class="dim">{LOOKS_AGAIN}</p></Start>;
      return <NoMatch query={{ type: '', matchers: [] }} from={from} until={until} range={range()} newestMs={past.data?.newestMs ?? null} />;
    }
    if (oursOnly) {
      const query = queryText({ type: preferredType(known.data!.get(OURSELVES) ?? []), matchers: [{ label: SERVICE, op: '=', value: OURSELVES }] });
      return (
        <Start title="Send your profiles" again={again} refresh={refresh}>
          <p class="dim">So far this server has only profiles of itself: <Link to="flame" patch={{ query }}>show them</Link>. {LOOKS_AGAIN}</p>
        </Start>
      );
    }
    if (alone && !ever.data && !ever.error) return <Waiting />;
    if (lines.error && !data) return <Failure error={lines.error} retry={refresh} />;
    if (!data) return <Waiting />;
    if (shown.length === 0) return <p class="none">No matching services</p>;
    const error = known.error ?? lines.error;
    return (
      <>
        {error && <Outdated error={error} at={data.buckets.now} retry={refresh} />}
        <ul class="cards">{shown.map((c) => <ServiceCard key={c.service} card={c} type={of} types={known.data?.get(c.service) ?? []} />)}</ul>
      </>
    );
  };
  return (
    <>
      <div class="querybar">
        <span class="field search">
          <Icon name="search" />
          <input ref={input} type="text" placeholder="Filter services" aria-label="Filter services" value={filter} spellcheck={false}
            onInput={(e) => go({ filter: e.currentTarget.value }, 'replace')} onKeyDown={(e) => e.key === 'Escape' && e.currentTarget.blur()} />
          <kbd>/</kbd>
        </span>
        <label class="field">
          <span>Profile</span>
          <select value={type} disabled={types.length === 0} onChange={(e) => go({ type: e.currentTarget.value })}>
            {type === '' && <option value="">–</option>}
            {type !== '' && !types.some((t) => t.id === type) && <option value={type}>{typeName(type)}</option>}
            {types.map((t) => <option key={t.id} value={t.id}>{t.text}</option>)}
          </select>
        </label>
        <label class="field">
          <span>Sort</span>
          <select value={sort} onChange={(e) => go({ sort: e.currentTarget.value === 'use' ? '' : e.currentTarget.value })}>
            {SORTS.map(([k, text]) => <option key={k} value={k}>{text}</option>)}
          </select>
        </label>
        <span class="status num dim">{shown.length} {shown.length === 1 ? 'service' : 'services'}</span>
      </div>
      <main aria-busy={known.busy || lines.busy}><h1 class="unseen">Services</h1>{content()}<Losses again={again} /></main>
    </>
  );
}

function ServiceCard({ card: { service, line, use, rise }, type, types }: { card: Card; type: string; types: string[] }) {
  const star = favourites.value.has(service), rate = rateOf(type), { a, b } = sideColors(theme.value);
  const to = line ? type : preferredType(types), moves = rise !== null && rise !== NEW && rise !== GONE;
  const rises = moves && rise > RISE, falls = moves && rise < -RISE;
  const [big, ...unit] = rate.write(use).split(/(?<=\d) /);
  const query = queryText({ type: to, matchers: [{ label: SERVICE, op: '=', value: service }] });
  return (
    <li class="card service">
      <div class="row">
        <h2 class="cut"><Link to="flame" title={service} patch={{ query }}>{service}</Link></h2>
        <button class={`star${star ? ' on' : ''}`} aria-pressed={star} aria-label={`Favourite ${service}`} title="Favourite"
          onClick={() => toggleFavourite(service)}><Icon name="star" /></button>
      </div>
      {line ? (
        <>
          <div class="row num">
            <span><b class="big">{big}</b> <span class="dim">{unit.join(' ')}</span></span>
            {rise !== null && (
              <span class={rises ? 'rises' : falls ? 'falls' : 'dim'} title={riseWords(rise)}>
                {moves && (rise >= 0 ? '▲ ' : '▼ ')}{change(rise)}
              </span>
            )}
          </div>
          <Spark values={line.values} filling={line.filling} color={rises ? b : a} />
        </>
      ) : <p class="dim">No {typeInText(type)}; has {types.map(typeInText).slice(0, 3).join(', ')}{types.length > 3 ? ' …' : ''}</p>}
    </li>
  );
}
