// Draws the visible rows of a flame graph on a canvas. The cost follows pixels, not frames:
//  - bars of a row that are narrower than half a pixel and touch are drawn as one bar of "dust" and leapt over by
//    galloping and binary search, so shape is never lost and 200 000 frames cost no more than what can be seen;
//  - rectangles are sorted by colour first, because changing fillStyle is what costs (36 500 of them: 44 instead of
//    66 ms), and only those 6 pixels wide or more get round corners;
//  - widths of labels come from a table of advances, never from measureText per frame;
//  - a crowded picture is drawn coarser while it moves.
import { levelOf, timesText, type Flame } from './model';
import type { Paint } from './colors';
import { shorter } from './names';

export const ROW = 20;
const GAP = 1, RADIUS = 2.5, ROUND_FROM = 6, PAD = 5;
const DUST_BELOW = 0.5, DUST_BELOW_MOVING = 1.5, CROWDED = 8000;
const MARK = 3; // px below what a search found
const GREY = 60; // colours whose channels differ less are no colour beside dust
const LABEL_FROM = 30, SHORTEST_CUT = 3;
const FONT = '500 11.5px "Inter Variable", system-ui, sans-serif';
const ASCII = 127, OTHER_ADVANCE = 12;

/** The part of the root's width that is on screen, as shares. */
export interface View { lo: number; hi: number }

/** What lies where: rows from the top down, or from the bottom up, with or without the row of the root. */
export interface Shape { upward: boolean; firstLevel: 0 | 1 }

export interface Picture {
  flame: Flame;
  paint: Paint;
  shape: Shape;
  focus: number; // levels above it step back to the colour of dust
  lit: Uint8Array | null; // marks of names; all others step back
  place: string; // what was asked and zoomed: if it is the same, the picture is of the same with newer values
}

export const rowsOf = (f: Flame, s: Shape): number => f.depth - s.firstLevel;

/** Height of all rows, or of the visible part if that is more. */
export const tallOf = (f: Flame, s: Shape, height: number): number => Math.max(rowsOf(f, s) * ROW, height);

/** Upper edge of a level within that height. */
export function topOf(f: Flame, s: Shape, level: number, height: number): number {
  const row = level - s.firstLevel;
  return s.upward ? tallOf(f, s, height) - (row + 1) * ROW : row * ROW;
}

/** The level at a place within that height; -1 where there is none. */
export function levelAt(f: Flame, s: Shape, y: number, height: number): number {
  const row = Math.floor((s.upward ? tallOf(f, s, height) - 1 - y : y) / ROW);
  return row < 0 || row >= rowsOf(f, s) ? -1 : row + s.firstLevel;
}

/** First frame of [from, to) whose right edge lies beyond x; `to` if none does. */
export function firstBeyond(f: Flame, from: number, to: number, x: number): number {
  let a = from, b = to;
  while (a < b) {
    const m = (a + b) >>> 1;
    if (f.x[m] + f.w[m] <= x) a = m + 1;
    else b = m;
  }
  return a;
}

/** The same, for an answer that is probably near. */
function gallop(f: Flame, from: number, to: number, x: number): number {
  let step = 1;
  while (from + step < to && f.x[from + step] + f.w[from + step] <= x) step *= 2;
  return firstBeyond(f, from + 1, Math.min(to, from + step), x);
}

/** The frame at a pixel of a level, or -1. */
export function pick(f: Flame, view: View, width: number, px: number, level: number): number {
  if (level < 0 || level >= f.depth) return -1;
  const x = view.lo + (px / width) * (view.hi - view.lo), end = f.levelStart[level + 1];
  const i = firstBeyond(f, f.levelStart[level], end, x);
  return i < end && f.x[i] <= x ? i : -1;
}

/** Styles that would hardly stand out from dust; colours of a measure mean something, and stay. */
export function greyStyles(paint: Paint): boolean[] {
  return paint.styles.map((color) => {
    const channels = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
    return paint.scale === null && Math.max(...channels) - Math.min(...channels) < GREY;
  });
}

/** Rectangles of one picture, in columns that grow. */
class Rectangles {
  count = 0;
  style = new Uint16Array(1 << 12);
  x = new Float32Array(1 << 12);
  y = new Float32Array(1 << 12);
  w = new Float32Array(1 << 12);
  private order = new Uint32Array(0);

  add(style: number, x: number, y: number, w: number): void {
    if (this.count === this.style.length) this.grow();
    this.style[this.count] = style;
    this.x[this.count] = x;
    this.y[this.count] = y;
    this.w[this.count++] = w;
  }

  private grow(): void {
    const room = this.count * 2;
    const wider = (a: Float32Array<ArrayBuffer>) => {
      const b = new Float32Array(room);
      b.set(a);
      return b;
    };
    const style = new Uint16Array(room);
    style.set(this.style);
    this.style = style;
    this.x = wider(this.x);
    this.y = wider(this.y);
    this.w = wider(this.w);
  }

  /** Counting sort. Returns indices by style and where each style starts among them. */
  byStyle(styles: number): { order: Uint32Array; start: Uint32Array } {
    const start = new Uint32Array(styles + 1);
    for (let i = 0; i < this.count; i++) start[this.style[i] + 1]++;
    for (let s = 0; s < styles; s++) start[s + 1] += start[s];
    if (this.order.length < this.count) this.order = new Uint32Array(this.style.length);
    const next = start.slice();
    for (let i = 0; i < this.count; i++) this.order[next[this.style[i]]++] = i;
    return { order: this.order, start };
  }
}

/** The methods of a canvas that drawing needs. */
export type Drawing = Pick<CanvasRenderingContext2D, 'clearRect' | 'beginPath' | 'fill' | 'fillRect' | 'fillText' |
  'measureText' | 'createPattern' | 'fillStyle' | 'font' | 'textBaseline'> & {
  roundRect(x: number, y: number, w: number, h: number, r?: number): void;
  setTransform(a: number, b: number, c: number, d: number, x: number, y: number): void;
};

export class Renderer {
  private readonly ctx: Drawing;
  private readonly rects = new Rectangles();
  private readonly advance = new Float32Array(ASCII + 1);
  private crowded = false;
  private forms: string[][] = [];
  private formsOf: string[] | null = null;
  private greys: { paint: Paint; styles: boolean[] } | null = null;
  private hatch: { paint: Paint; cut: boolean; pattern: CanvasPattern } | null = null;
  width = 0;
  height = 0;
  origin = { x: 0, y: 0 }; // where to draw, for a part of a larger picture

  constructor(private readonly canvas: HTMLCanvasElement, on?: Drawing) {
    this.ctx = on ?? canvas.getContext('2d')!;
    this.measureFont();
  }

  /** Again after the web font has loaded. */
  measureFont(): void {
    this.ctx.font = FONT;
    for (let c = 32; c < ASCII; c++) this.advance[c] = this.ctx.measureText(String.fromCharCode(c)).width;
  }

  resize(width: number, height: number): void {
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * devicePixelRatio);
    this.canvas.height = Math.round(height * devicePixelRatio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
  }

  /** `moving`: one picture of many, to be drawn fine later. */
  draw(picture: Picture, view: View, scroll: number, moving: boolean): void {
    const { ctx, width, height, rects } = this, { flame: f, paint, shape, lit } = picture;
    const focusLevel = levelOf(f, picture.focus);
    const finest = moving && this.crowded ? DUST_BELOW_MOVING : DUST_BELOW;
    const levels: { level: number; y: number }[] = [];
    for (let level = shape.firstLevel; level < f.depth; level++) {
      const y = topOf(f, shape, level, height) - scroll;
      if (y > -ROW && y < height) levels.push({ level, y });
    }
    ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, this.origin.x * devicePixelRatio, this.origin.y * devicePixelRatio);
    ctx.clearRect(0, 0, width, height);
    rects.count = 0;
    for (const { level, y } of levels) this.collectRow(picture, view, level, y, finest, level < focusLevel);
    if (!moving) this.crowded = rects.count > CROWDED;
    this.fill(paint);
    ctx.font = FONT;
    ctx.textBaseline = 'middle';
    for (const { level, y } of levels) this.labelRow(f, paint, view, level, y, level < focusLevel, lit);
  }

  private collectRow(p: Picture, view: View, level: number, y: number, finest: number, back: boolean): void {
    const { width, rects } = this, { flame: f, paint, lit } = p, grey = this.greyOf(paint), k = width / (view.hi - view.lo), dust = paint.styles.length;
    const end = f.levelStart[level + 1];
    let dustFrom = NaN, dustTo = NaN;
    const flush = () => {
      if (dustTo - dustFrom > 0.25) rects.add(dust, dustFrom, y, dustTo - dustFrom);
      dustFrom = NaN;
    };
    let i = firstBeyond(f, f.levelStart[level], end, view.lo);
    while (i < end && f.x[i] < view.hi) {
      const a = (f.x[i] - view.lo) * k, b = a + f.w[i] * k;
      if (b - a < finest) {
        if (Number.isNaN(dustFrom) || a > dustTo + 0.5) {
          flush();
          dustFrom = a;
        }
        dustTo = b;
        i = gallop(f, i, end, view.lo + (b + 0.25) / k);
      } else {
        flush();
        const left = Math.max(0, a), dull = back || (lit !== null && !lit[f.name[i]]);
        const style = dull ? dust : paint.styleOf(f, i), found = lit !== null && !dull, w = Math.min(width, b) - left;
        rects.add(found && grey[style] ? dust + 1 : style, left, y, w);
        if (found) rects.add(dust + 2, left, y, w);
        i++;
      }
    }
    flush();
  }

  private greyOf(paint: Paint): boolean[] {
    if (this.greys?.paint !== paint) this.greys = { paint, styles: greyStyles(paint) };
    return this.greys.styles;
  }

  private fill(paint: Paint): void {
    const { dust, hit, mark } = paint.palette, colors = [...paint.styles, dust, hit, mark];
    const { ctx, rects } = this, { order, start } = rects.byStyle(colors.length);
    for (let s = 0; s < colors.length; s++) {
      if (start[s] === start[s + 1]) continue;
      ctx.fillStyle = s === paint.rest || s === paint.cut ? this.hatching(paint, s === paint.cut) : colors[s];
      for (let j = start[s]; j < start[s + 1]; j++) {
        const i = order[j], w = rects.w[i];
        if (s === colors.length - 1) {
          ctx.fillRect(rects.x[i], rects.y[i] + ROW - GAP - MARK, w > 2 ? w - GAP : w, MARK);
        } else if (w >= ROUND_FROM) {
          ctx.beginPath();
          ctx.roundRect(rects.x[i], rects.y[i], w - GAP, ROW - GAP, RADIUS);
          ctx.fill();
        } else {
          ctx.fillRect(rects.x[i], rects.y[i], w > 2 ? w - GAP : w, ROW - GAP);
        }
      }
    }
  }

  /** Stripes for frames that are no function: one way for what the server left out, the other for what it cut when pushed. */
  private hatching(paint: Paint, cut: boolean): CanvasPattern {
    if (this.hatch?.paint !== paint || this.hatch.cut !== cut) {
      const tile = document.createElement('canvas'), size = 8;
      tile.width = tile.height = size;
      const t = tile.getContext('2d')!;
      const [, lighter, darker] = cut ? paint.palette.kernel : paint.palette.runtime;
      t.fillStyle = lighter;
      t.fillRect(0, 0, size, size);
      t.strokeStyle = darker;
      t.lineWidth = cut ? 3.5 : 2.5;
      if (cut) t.setTransform(-1, 0, 0, 1, size, 0);
      t.beginPath();
      for (const d of [-size, 0, size]) {
        t.moveTo(d - 1, size + 1);
        t.lineTo(d + size + 1, -1);
      }
      t.stroke();
      this.hatch = { paint, cut, pattern: this.ctx.createPattern(tile, 'repeat')! };
    }
    return this.hatch.pattern;
  }

  private labelRow(f: Flame, paint: Paint, view: View, level: number, y: number, back: boolean, lit: Uint8Array | null): void {
    const { ctx } = this, { text: bright, dustText: dull } = paint.palette;
    const k = this.width / (view.hi - view.lo), narrowest = LABEL_FROM / k, end = f.levelStart[level + 1];
    for (let i = firstBeyond(f, f.levelStart[level], end, view.lo); i < end && f.x[i] < view.hi; i++) {
      if (f.w[i] < narrowest) continue;
      const left = Math.max(0, (f.x[i] - view.lo) * k), right = Math.min(this.width, (f.x[i] + f.w[i] - view.lo) * k);
      const times = timesText(f, i), text = this.label(f, f.name[i], right - left - 2 * PAD - this.textWidth(times));
      if (!text) continue;
      ctx.fillStyle = back || (lit !== null && !lit[f.name[i]]) ? dull : bright;
      ctx.fillText(text + times, left + PAD, y + ROW / 2);
    }
  }

  private charWidth(s: string, i: number): number {
    const c = s.charCodeAt(i);
    return c < ASCII ? this.advance[c] : OTHER_ADVANCE;
  }

  private textWidth(s: string): number {
    let w = 0;
    for (let i = 0; i < s.length; i++) w += this.charWidth(s, i);
    return w;
  }

  /** The longest form of a name that fits; the shortest one cut if none does; nothing if little of it would remain. */
  private label(f: Flame, name: number, room: number): string {
    if (this.formsOf !== f.names) {
      this.formsOf = f.names;
      this.forms = [];
    }
    const forms = (this.forms[name] ??= shorter(f.names[name]));
    for (const form of forms) if (this.textWidth(form) <= room) return form;
    const shortest = forms[forms.length - 1];
    let kept = 0;
    for (let w = OTHER_ADVANCE; kept < shortest.length; kept++) {
      w += this.charWidth(shortest, kept);
      if (w > room) break;
    }
    return kept < SHORTEST_CUT ? '' : `${shortest.slice(0, kept)}…`;
  }
}
