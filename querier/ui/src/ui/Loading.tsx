// While the answer to a new question is under way, or was cancelled: what is loading, for how long, what the old picture
// is of, and the way to stop it. It floats above the page, so that nothing moves. A refresh of the same question is silent.
import { useEffect, useRef, useState } from 'preact/hooks';
import { go } from '../address';
import { typeName } from '../ptype';
import { filtersOf, selector, serviceOf, type Query } from '../query';
import { rangeText, type Range } from '../time';
import { cancelAll, type Loaded } from './load';

/** "CPU time of checkout, last 30 days" */
export function aboutText(query: Query, from: string, until: string, range: Range): string {
  const filters = filtersOf(query), period = rangeText(from, until, range);
  return `${typeName(query.type)} of ${serviceOf(query) ?? 'all services'}${filters.length > 0 ? ` ${selector(filters)}` : ''}, ${period[0].toLowerCase()}${period.slice(1)}`;
}

/** The class of what shows an answer: `dimmed` while a newer question is under way, `kept` after that was cancelled. */
export const agedClass = ({ stale, cancelled }: Loaded<unknown>): string => (!stale ? '' : cancelled ? ' kept' : ' dimmed');

/** The place of the first picture. */
export const Space = () => <section class="card state" />;

/** A question that was cancelled is not asked again by itself. */
function cancel(): void {
  cancelAll();
  go({ refresh: '' }, 'replace');
}

interface Props { of: Loaded<unknown>; what: string; retry: () => void }

export function Loading({ of, what, retry }: Props) {
  const shown = useRef(''), [seconds, setSeconds] = useState(0);
  const waits = of.busy && (of.stale || of.data === null);
  if (of.data !== null && !of.stale) shown.current = what;
  useEffect(() => {
    setSeconds(0);
    if (!waits) return undefined;
    const timer = setInterval(() => setSeconds((s) => s + 1), 1000);
    return () => clearInterval(timer);
  }, [waits, what]);
  const old = of.stale && shown.current && <span class="dim">Still shown: {shown.current}</span>;
  return (
    <div class="loading">
      <div>
        <div role="status">
          {waits && <span>Loading {what} …</span>}
          {of.cancelled && <span><b>Cancelled</b>: {what}</span>}
          {(waits || of.cancelled) && old}
        </div>
        {waits && seconds > 0 && <span class="num dim" aria-hidden="true">{seconds} s</span>}
        {waits && <button class="btn small" onClick={cancel}>Cancel</button>}
        {of.cancelled && <button class="btn small" onClick={retry}>Load again</button>}
      </div>
    </div>
  );
}
