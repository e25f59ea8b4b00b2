import { useMemo } from 'preact/hooks';
import { MAX_NODES, type Answer } from '../answer';
import { makePaint } from '../flame/colors';
import { FlameGraph } from '../flame/FlameGraph';
import { ROOT } from '../flame/model';
import { plural, value } from '../format';
import { isGauge, typeName, unitOf } from '../ptype';
import { clock } from '../time';
import { Banner } from './states';
import { theme } from './theme';

interface Props { answer: Answer; failed: Error | null; retry: () => void; zoom: string; onZoom: (key: string) => void }

/** One answer: its figures, the meaning of its colours, and its flame graph. */
export function ProfileCard({ answer, failed, retry, zoom, onZoom }: Props) {
  const { flame } = answer, { type } = answer.query, { unit, factor } = unitOf(type);
  const paint = useMemo(() => makePaint(flame, theme.value), [flame, theme.value]);
  return (
    <section class="card" aria-labelledby="what">
      {failed && <Banner error={failed} kept={`shown is the answer of ${clock(answer.at)}`} retry={retry} />}
      <div class="head">
        <h1 id="what">{typeName(type)}</h1>
        <span class="total num"><b>{value(flame.total[ROOT] * factor, unit)}</b> total</span>
        {isGauge(type) && <span class="dim">summed over all profiles of the range</span>}
        <span class="dim num">{plural(flame.count, 'frame')}, {flame.depth - 1} deep</span>
        <ul class="legend" aria-label="Colours">
          {paint.legend.map((l) => <li key={l.text}><i style={{ background: l.color }} /><span class="cut">{l.text}</span></li>)}
        </ul>
      </div>
      <FlameGraph flame={flame} paint={paint} type={type} zoom={zoom} maxNodes={MAX_NODES} onZoom={onZoom} />
    </section>
  );
}
