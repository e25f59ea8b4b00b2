// What the page says when it has no picture to show: why, in words that are true, and the way on.
import type { ComponentChildren } from 'preact';
import { go } from '../address';
import { CallError } from '../api/client';
import { typeName } from '../ptype';
import { filtersOf, queryText, serviceOf, type Query } from '../query';
import { clock, isRelative, moment, rangeText, type Range } from '../time';
import { useRepeat } from './useRepeat';

const FIRST_PROFILE_POLL_S = 5;
export const LOOKS_AGAIN = `This page looks again every ${FIRST_PROFILE_POLL_S} seconds.`;

/** While nothing was ever pushed the page looks for the first profile by itself. */
export function useFirstProfile(nothingYet: boolean, busy: boolean, again: number, refresh: () => void): void {
  useRepeat(nothingYet ? FIRST_PROFILE_POLL_S : 0, busy, again, refresh);
}

const IN_WORDS: Record<string, string> = {
  invalid_argument: 'The server refused the query',
  out_of_range: 'The server refused the query',
  failed_precondition: 'The server refused the query',
  not_found: 'Not found',
  unauthenticated: 'No access',
  permission_denied: 'No access',
  resource_exhausted: 'The server is busy or a limit is reached',
  deadline_exceeded: 'The query took too long',
  canceled: 'The query was cancelled',
  unavailable: 'The server is not available',
  unimplemented: 'Not supported by this server',
};

/** Codes of errors that the same question will get again. */
const STAYS = /^(invalid_argument|out_of_range|failed_precondition|not_found|unauthenticated|permission_denied|unimplemented)$/;
const mayHelp = (error: Error) => !(error instanceof CallError && STAYS.test(error.code));

function words(error: Error): string {
  if (error instanceof CallError) return IN_WORDS[error.code] ?? 'The server failed';
  return 'The answer cannot be read';
}

function State({ title, role, children }: { title: string; role?: 'alert' | 'status'; children: ComponentChildren }) {
  return <section class="card state" role={role}><h1>{title}</h1>{children}</section>;
}

/** Seen only if the first answer takes a while; the space of the picture is kept. */
export function Waiting() {
  return <section class="card state waiting" role="status"><p>Loading the profile …</p></section>;
}

export function Failure({ error, retry }: { error: Error; retry: () => void }) {
  return (
    <State title={words(error)} role="alert">
      {error.message && <p class="said">{error.message}</p>}
      {mayHelp(error) && <p><button class="btn primary" onClick={retry}>Try again</button></p>}
    </State>
  );
}

/** A refresh failed, the picture stays. */
export function Banner({ error, kept, retry }: { error: Error; kept: string; retry: () => void }) {
  return (
    <div class="banner" role="alert">
      <span><b>{words(error)}</b>{error.message && `: ${error.message}`} <span class="dim">· {kept}</span></span>
      {mayHelp(error) && <button class="btn small" onClick={retry}>Try again</button>}
    </div>
  );
}

/** A page without a picture of its own to put the banner into. */
export const Outdated = ({ error, at, retry }: { error: Error; at: number; retry: () => void }) =>
  <section class="card wide"><Banner error={error} kept={`shown is the answer of ${clock(at)}`} retry={retry} /></section>;

export function Unreadable({ what, text, wayOut }: { what: string; text: string; wayOut: () => void }) {
  return (
    <State title={`The ${what} in the address cannot be read`} role="alert">
      <p class="said">{text}</p>
      <p><button class="btn primary" onClick={wayOut}>Use the default {what}</button></p>
    </State>
  );
}

interface NoMatchProps { query: Query; from: string; until: string; range: Range; newestMs: number | null }

/** There are profiles, but none here: other filters, a wider range, or the place where the newest is. */
export function NoMatch({ query, from, until, range, newestMs }: NoMatchProps) {
  const filters = filtersOf(query), last = filters[filters.length - 1];
  const service = serviceOf(query), dayAgo = isRelative(until) && range.end - range.start < 86400e3;
  const what = query.type ? `${typeName(query.type)} profiles` : 'profiles';
  const newestElsewhere = newestMs !== null && (newestMs < range.start || newestMs > range.end);
  // It may be of any service, so the query goes as well.
  const toNewest = () => go({ query: '', from: String(newestMs! - 3600e3), until: String(newestMs! + 1000), zoom: '', within: '' }, 'push', 'flame');
  const period = rangeText(from, until, range);
  return (
    <State title={`No ${what} found`} role="status">
      <p>
        {service && <>Service <b>{service}</b> · </>}{period}
        {filters.length > 0 && <> · <span class="said">{queryText({ type: '', matchers: filters })}</span></>}
      </p>
      {newestMs !== null && newestElsewhere && <p class="dim">Latest profile: {moment(newestMs)}.</p>}
      <p class="ways">
        {last && (
          <button class="btn" onClick={() => go({ query: queryText({ ...query, matchers: query.matchers.filter((m) => m !== last) }) })}>
            Remove the filter on {last.label}
          </button>
        )}
        {dayAgo && <button class="btn" onClick={() => go({ from: 'now-24h', until: 'now' })}>Show the last 24 hours</button>}
        {newestElsewhere && <button class="btn" onClick={toNewest}>Go to the latest profile</button>}
      </p>
    </State>
  );
}
