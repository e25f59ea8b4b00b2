// The flame graph with all that belongs to it: the path to the zoomed frame, the picture, the tooltip, and words for
// those who cannot see it. Function names are chosen by whoever pushes profiles: they only ever become text.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { findFrame, frameKey, levelOf, nameOf, pathTo, ROOT, type Flame } from './model';
import { FlameView, type Spot } from './view';
import { origin, shorter } from './names';
import type { Paint } from './colors';
import { exact, percent, plural, value } from '../format';
import { unitOf } from '../ptype';

interface Props {
  flame: Flame;
  paint: Paint;
  type: string; // profile type of the values
  zoom: string; // key of the zoomed frame, empty for the root
  maxNodes: number;
  onZoom: (key: string) => void;
}

const SHOWN_CALLERS = 3;

/** Writes values of one profile type. */
function writer(type: string): (v: number) => string {
  const { unit, factor } = unitOf(type);
  return (v) => value(v * factor, unit);
}

export function FlameGraph({ flame, paint, type, zoom, maxNodes, onZoom }: Props) {
  const box = useRef<HTMLDivElement>(null), view = useRef<FlameView | null>(null);
  const [spot, setSpot] = useState<(Spot & { of: Flame; byKey: boolean }) | null>(null);
  const found = useMemo(() => (zoom ? findFrame(flame, zoom) : ROOT), [flame, zoom]);
  const focus = Math.max(ROOT, found);
  const latest = useRef({ flame, onZoom });
  latest.current = { flame, onZoom };

  const zoomTo = (frame: number) => {
    const now = latest.current;
    now.onZoom(frame === ROOT ? '' : frameKey(now.flame, frame));
  };
  useEffect(() => {
    const v = new FlameView(box.current!, {
      onZoom: zoomTo,
      onSpot: (s, byKey) => setSpot(s && { ...s, of: latest.current.flame, byKey }),
    });
    view.current = v;
    return () => v.destroy();
  }, []);
  useEffect(() => view.current!.show(flame, paint, focus), [flame, paint, focus]);

  const current = spot?.of === flame ? spot : null;
  return (
    <div class="flame">
      <Path flame={flame} type={type} focus={focus} lost={found < 0} zoomTo={zoomTo} />
      <div class="scroller" ref={box}>
        <div class="spacer">
          <div class="outline" hidden />
          <canvas tabIndex={0} role="application" aria-roledescription="flame graph" data-frames={flame.count}
            aria-label={`Flame graph of ${plural(flame.count, 'frame')}. Arrow keys walk it, Enter zooms, Escape shows all.`} />
        </div>
      </div>
      <div class="keys" aria-hidden="true"><kbd>↑ ↓ ← →</kbd> walk <kbd>Enter</kbd> zoom <kbd>Esc</kbd> show all</div>
      {current && <Tooltip flame={flame} paint={paint} type={type} spot={current} maxNodes={maxNodes} />}
      <div class="unseen" aria-live="polite">{current?.byKey ? spoken(flame, type, current.frame) : ''}</div>
    </div>
  );
}

function spoken(f: Flame, type: string, i: number): string {
  const write = writer(type), share = (v: number) => percent(f.total[ROOT] ? v / f.total[ROOT] : 0);
  return `${nameOf(f, i)}, total ${write(f.total[i])}, ${share(f.total[i])}, self ${share(f.self[i])}, ` +
    `level ${levelOf(f, i)}, ${plural(f.children[i], 'callee')}`;
}

interface PathProps { flame: Flame; type: string; focus: number; lost: boolean; zoomTo: (frame: number) => void }

/** The way from the root to the zoomed frame; every part of it is a way back. */
function Path({ flame: f, type, focus, lost, zoomTo }: PathProps) {
  const write = writer(type);
  const callers = pathTo(f, focus).slice(0, -1), shown = callers.slice(-SHOWN_CALLERS);
  const short = (i: number) => shorter(nameOf(f, i))[0];
  return (
    <nav class="path" aria-label="Zoomed frame">
      {focus === ROOT ? (
        <span class="dim">{lost ? 'The zoomed frame is not in this profile: all of it is shown.' : 'Click a frame to zoom in.'}</span>
      ) : (
        <>
          <button class="btn small" onClick={() => zoomTo(ROOT)}>Show all</button>
          <ol>
            {callers.length > shown.length && <li class="more" aria-label={`${callers.length - shown.length} more callers`}>…</li>}
            {shown.map((i) => <li key={i} class="caller"><button title={nameOf(f, i)} onClick={() => zoomTo(i)}>{short(i)}</button></li>)}
            <li class="here" aria-current="true" title={nameOf(f, focus)}>{short(focus)}</li>
          </ol>
          <span class="figures num">
            <b>{write(f.total[focus])}</b> {percent(f.total[focus] / f.total[ROOT])} of total
            <span class="self"> · self {write(f.self[focus])}</span>
          </span>
        </>
      )}
    </nav>
  );
}

const ORIGINS = { runtime: 'runtime', library: 'standard library', code: '', rest: 'not a function' };

interface TooltipProps { flame: Flame; paint: Paint; type: string; spot: Spot; maxNodes: number }

function Tooltip({ flame: f, paint, type, spot, maxNodes }: TooltipProps) {
  const ref = useRef<HTMLDivElement>(null), i = spot.frame, name = nameOf(f, i), o = origin(name);
  const write = writer(type), { stored } = unitOf(type), sum = f.total[ROOT];
  const share = (v: number, of: number) => percent(of ? v / of : 0);
  const from = o.kind === 'library' ? `${ORIGINS.library} · ${o.package}` : ORIGINS[o.kind] || o.package;
  useLayoutEffect(() => {
    const el = ref.current!, { offsetWidth: w, offsetHeight: h } = el;
    const below = spot.y + 18, above = spot.y - h - 12;
    el.style.left = `${Math.max(8, Math.min(spot.x + 14, innerWidth - w - 8))}px`;
    el.style.top = `${below + h > innerHeight - 8 && above >= 8 ? above : below}px`;
  });
  return (
    <div class="tooltip" role="tooltip" ref={ref}>
      <div class="function">{name || '(no name)'}</div>
      {i !== ROOT && from && (
        <div class="from"><i style={{ background: paint.styles[paint.ofName[f.name[i]]] }} />{from}</div>
      )}
      <table>
        <thead><tr><td /><th scope="col">Value</th><th scope="col">of total</th><th scope="col">of caller</th></tr></thead>
        <tbody>
          <tr>
            <th scope="row">Total</th><td>{write(f.total[i])}</td><td>{share(f.total[i], sum)}</td>
            <td>{i === ROOT ? '–' : share(f.total[i], f.total[f.parent[i]])}</td>
          </tr>
          <tr><th scope="row">Self</th><td>{write(f.self[i])}</td><td>{share(f.self[i], sum)}</td><td /></tr>
          <tr><th scope="row">Exact</th><td>{exact(f.total[i])}</td><td colSpan={2} class="dim">{stored}</td></tr>
        </tbody>
      </table>
      {o.kind === 'rest' && <p>The sum of what was left out to keep to {exact(maxNodes)} frames.</p>}
    </div>
  );
}
