// The flame graph with all that belongs to it: the path to the zoomed frame, the picture, the tooltip, and words for
// those who cannot see it. Function names are chosen by whoever pushes profiles: they only ever become text.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { findFrame, frameKey, levelOf, nameOf, pathTo, ROOT, share, timesText, type Flame } from './model';
import { FlameView, type Spot } from './view';
import type { Shape } from './draw';
import { type Kind, CUTS, origin, readable, REST, shorter } from './names';
import type { Paint } from './colors';
import { exact, percent, plural, times } from '../format';
import { amountChange, shareChange, type Norm } from './norm';
import { isGauge, rateOf, unitOf, valueWriter } from '../ptype';

/** What shares are shares of: the totals of the whole profile, of which the graph may be a part. */
export interface Whole { left: number; right: number; norm?: Norm }

export interface FrameMenu { name: string; frame: number; x: number; y: number; callers: string[] }

interface Props {
  flame: Flame;
  about: string; // what is asked: newer values of the same leave a place that was found by hand
  paint: Paint;
  type: string; // profile type of the values
  whole: Whole;
  shape?: Shape;
  lit: Uint8Array | null; // names that a search found; all others step back
  hit?: { frame: number } | null; // the frame to go to; a new object goes there again
  zoom: string; // key of the zoomed frame, empty for the root
  lost?: boolean; // what the address asks for was not found by whoever asked
  maxNodes: number;
  label: string; // what it is, for those who cannot see it
  aside?: ComponentChildren; // in the line above the picture; without it there is no such line
  onZoom: (key: string) => void;
  onRest?: (frame: number) => void; // asks for what was cut off, where that can be done
  onMenu: (menu: FrameMenu) => void;
  onTarget: (name: string | null) => void; // the function that keys mean
}

const SHOWN_CALLERS = 3;
const HINT = matchMedia('(pointer: coarse)').matches ? 'Tap a frame to zoom in, hold it for more.' : 'Click a frame to zoom in, right-click for more.';
const HOW_TO_WALK = 'Arrow keys walk it, Enter zooms, Escape shows all. The table holds the same numbers.';
const WHOLE_SHAPE: Shape = { upward: false, firstLevel: 0 };

export function FlameGraph(p: Props) {
  const { flame, paint, zoom, about, shape = WHOLE_SHAPE } = p;
  const box = useRef<HTMLDivElement>(null), view = useRef<FlameView | null>(null);
  const [spot, setSpot] = useState<(Spot & { of: Flame; byKey: boolean }) | null>(null);
  const found = useMemo(() => (zoom ? findFrame(flame, zoom) : ROOT), [flame, zoom]);
  const focus = Math.max(ROOT, found), latest = useRef(p);
  latest.current = p;

  const zoomTo = (frame: number, asked = true) => {
    const { flame: f, onZoom, onRest } = latest.current;
    if (asked && onRest && frame !== ROOT && nameOf(f, frame) === REST) onRest(frame);
    else onZoom(frame === ROOT ? '' : frameKey(f, frame));
  };
  // With the drawing, not after it: a click in between would be about frames that are no longer those of the page.
  useLayoutEffect(() => {
    const v = new FlameView(box.current!, {
      onZoom: zoomTo,
      onSpot: (s, byKey) => {
        const { flame: f, onTarget } = latest.current;
        onTarget(s && s.frame !== ROOT ? nameOf(f, s.frame) : null);
        setSpot(s && { ...s, of: f, byKey });
      },
      onMenu: ({ frame, x, y }) => {
        const { flame: f, onMenu } = latest.current;
        setSpot(null);
        onMenu({ name: nameOf(f, frame), frame, x, y, callers: pathTo(f, frame).map((i) => nameOf(f, i)) });
      },
    });
    view.current = v;
    return () => v.destroy();
  }, []);
  useLayoutEffect(() => view.current!.show({ flame, paint, shape, focus, lit: p.lit, place: `${about}\n${zoom}` }),
    [flame, paint, focus, p.lit, shape.upward, shape.firstLevel]);

  useLayoutEffect(() => {
    if (p.hit) view.current!.reveal(p.hit.frame);
  }, [p.hit]);

  const current = spot?.of === flame ? spot : null;
  return (
    <div class="flame">
      {p.aside !== undefined && (
        <Path flame={flame} type={p.type} whole={p.whole} focus={focus} lost={found < 0 || p.lost === true} zoomTo={zoomTo} aside={p.aside} />
      )}
      <div class="scroller" ref={box}>
        <div class="spacer">
          <div class="outline" hidden />
          <canvas tabIndex={0} role="application" aria-roledescription="flame graph" data-frames={flame.count}
            aria-label={`${p.label} of ${plural(flame.count, 'frame')}. ${HOW_TO_WALK}`} />
        </div>
      </div>
      <div class="keys" aria-hidden="true"><kbd>↑ ↓ ← →</kbd> walk <kbd>Enter</kbd> zoom <kbd>Esc</kbd> show all <kbd>s</kbd> sandwich <kbd>?</kbd> keys</div>
      {current && <Tooltip flame={flame} paint={paint} type={p.type} whole={p.whole} spot={current} maxNodes={p.maxNodes} asks={p.onRest !== undefined} />}
      <div class="unseen" aria-live="polite">{current?.byKey ? spoken(flame, p.type, p.whole, current.frame) : ''}</div>
    </div>
  );
}

function spoken(f: Flame, type: string, whole: Whole, i: number): string {
  const place = `level ${levelOf(f, i)}, ${plural(f.children[i], 'callee')}`;
  if (f.right) {
    const left = share(f.total[i], whole.left), right = share(f.right.total[i], whole.right);
    return `${readable(nameOf(f, i))}${timesText(f, i)}, baseline ${percent(left)}, comparison ${percent(right)}, change ${shareChange(whole.norm!, f.total[i], f.right.total[i], whole)}, ${amountChange(whole.norm!, f.total[i], f.right.total[i])}, ${place}`;
  }
  const part = (v: number) => percent(share(v, whole.left));
  return `${readable(nameOf(f, i))}${timesText(f, i)}, total ${valueWriter(type)(f.total[i])}, ${part(f.total[i])}, self ${part(f.self[i])}, ${place}`;
}

interface PathProps {
  flame: Flame; type: string; whole: Whole; focus: number; lost: boolean; zoomTo: (frame: number) => void; aside: ComponentChildren;
}

/** The way from the root to the zoomed frame; every part of it is a way back. */
function Path({ flame: f, type, whole, focus, lost, zoomTo, aside }: PathProps) {
  const write = valueWriter(type);
  const callers = pathTo(f, focus).slice(0, -1), shown = callers.slice(-SHOWN_CALLERS);
  const short = (i: number) => shorter(nameOf(f, i))[0];
  return (
    <nav class="path" aria-label="Zoomed frame">
      {focus === ROOT ? (
        <span class="dim cut">{lost ? 'The zoomed frame is not in this profile: all of it is shown.' : HINT}</span>
      ) : (
        <>
          <button class="btn small" onClick={() => zoomTo(ROOT)}>Show all</button>
          <ol>
            {callers.length > shown.length && <li class="more" aria-label={`${callers.length - shown.length} more callers`}>…</li>}
            {shown.map((i) => <li key={i} class="caller"><button title={readable(nameOf(f, i))} onClick={() => zoomTo(i)}>{short(i)}</button></li>)}
            <li class="here" aria-current="true" title={readable(nameOf(f, focus))}>{short(focus)}</li>
          </ol>
          <span class="figures num">
            {f.right ? <><b>{percent(share(f.total[focus], whole.left))} → {percent(share(f.right.total[focus], whole.right))}</b></>
              : <><b>{write(f.total[focus])}</b> {percent(share(f.total[focus], whole.left))} of total<span class="self"> · self {write(f.self[focus])}</span></>}
          </span>
        </>
      )}
      {aside}
    </nav>
  );
}

const ORIGINS: Record<Kind, string> = {
  runtime: 'runtime', library: 'standard library', native: 'library', kernel: 'kernel', code: '', rest: 'not a function', cut: 'not a function',
};

interface TooltipProps { flame: Flame; paint: Paint; type: string; whole: Whole; spot: Spot; maxNodes: number; asks: boolean }

function Tooltip({ flame: f, paint, type, whole, spot, maxNodes, asks }: TooltipProps) {
  const ref = useRef<HTMLDivElement>(null), i = spot.frame, name = nameOf(f, i), o = origin(name);
  const named = (o.kind === 'library' || o.kind === 'native') && o.package;
  const from = named ? `${ORIGINS[o.kind]} · ${named}` : ORIGINS[o.kind] || o.package;
  useLayoutEffect(() => {
    const el = ref.current!, { offsetWidth: w, offsetHeight: h } = el;
    const below = spot.y + 18, above = spot.y - h - 12;
    el.style.left = `${Math.max(8, Math.min(spot.x + 14, innerWidth - w - 8))}px`;
    el.style.top = `${below + h > innerHeight - 8 && above >= 8 ? above : below}px`;
  });
  return (
    <div class="tooltip" role="tooltip" ref={ref}>
      <div class="function">{readable(name) || '(no name)'}{timesText(f, i)}</div>
      {i !== ROOT && from && (
        <div class="from"><i style={{ background: paint.styles[paint.styleOf(f, i)] }} />{from}</div>
      )}
      {f.right ? <Changes flame={f} type={type} whole={whole} frame={i} /> : <Values flame={f} type={type} whole={whole} frame={i} />}
      {o.kind === 'rest' && <p>The sum of what was left out to keep to {exact(maxNodes)} frames.{asks && ' A click asks for it.'}</p>}
      {o.kind === 'cut' && <p>{CUTS[name]}</p>}
    </div>
  );
}

interface FiguresProps { flame: Flame; type: string; whole: Whole; frame: number }

function Values({ flame: f, type, whole, frame: i }: FiguresProps) {
  const write = valueWriter(type), part = (v: number, of: number) => percent(share(v, of));
  return (
    <table>
      <thead><tr><td /><th scope="col">Value</th><th scope="col">of total</th><th scope="col">of caller</th></tr></thead>
      <tbody>
        <tr>
          <th scope="row">Total</th><td>{write(f.total[i])}</td><td>{part(f.total[i], whole.left)}</td>
          <td>{i === ROOT ? '–' : part(f.total[i], f.total[f.parent[i]])}</td>
        </tr>
        <tr><th scope="row">Self</th><td>{write(f.self[i])}</td><td>{part(f.self[i], whole.left)}</td><td /></tr>
        <tr><th scope="row">Exact</th><td>{exact(f.total[i])}</td><td colSpan={2} class="dim">{unitOf(type).stored}</td></tr>
      </tbody>
    </table>
  );
}

function Changes({ flame: f, type, whole, frame: i }: FiguresProps) {
  const write = valueWriter(type), rate = rateOf(type), norm = whole.norm!, { total, self } = f.right!;
  const row = (name: string, left: number, right: number, change: string) => (
    <tr><th scope="row">{name}</th><td>{write(left)}</td><td>{write(right)}</td><td>{change}</td></tr>
  );
  return (
    <table>
      <thead><tr><td /><th scope="col">Baseline</th><th scope="col">Comparison</th><th scope="col">Change</th></tr></thead>
      <tbody>
        <tr>
          <th scope="row">Share</th><td>{percent(share(f.total[i], whole.left))}</td><td>{percent(share(total[i], whole.right))}</td>
          <td>{shareChange(norm, f.total[i], total[i], whole)}</td>
        </tr>
        <tr>
          <th scope="row">{isGauge(type) ? 'Mean' : 'Rate'}</th><td>{rate.write(f.total[i] * norm.perLeft)}</td><td>{rate.write(total[i] * norm.perRight)}</td>
          <td>{amountChange(norm, f.total[i], total[i])}</td>
        </tr>
        {row('Total', f.total[i], total[i], norm.empty ? '–' : times(f.total[i], total[i]))}
        {row('Self', f.self[i], self[i], (norm.kind === 'abs' ? amountChange : shareChange)(norm, f.self[i], self[i], whole))}
      </tbody>
    </table>
  );
}
