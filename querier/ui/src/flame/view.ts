// The flame graph as a thing on the page: a canvas as large as its visible part, sticky in a tall spacer, plus an
// outline. It owns what moves every frame (scrolling, zooming, pointing) and tells the page of choices; the page owns
// what lasts (the data, the zoomed frame) and hands it down.
import { pick, Renderer, ROW, type View } from './draw';
import { heaviestChild, levelOf, ROOT, type Flame } from './model';
import type { Paint } from './colors';

export interface Spot { frame: number; x: number; y: number } // client pixels

export interface Listener {
  onZoom(frame: number): void;
  /** The frame under the pointer, or under the keyboard's cursor, or none. */
  onSpot(spot: Spot | null, byKey: boolean): void;
}

const ZOOM_MS = 220, SETTLE_MS = 90;
const still = matchMedia('(prefers-reduced-motion: reduce)');

export class FlameView {
  private readonly renderer: Renderer;
  private readonly spacer: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly outline: HTMLElement;
  private readonly resizing: ResizeObserver;
  private flame: Flame | null = null;
  private paint: Paint | null = null;
  private focus = ROOT;
  private view: View = { lo: 0, hi: 1 };
  private cursor = -1; // of the keyboard
  private pointer: { x: number; y: number } | null = null;
  private animation = 0;
  private queued = 0;
  private settling = 0;

  /** `scroller` holds a spacer, which holds the outline and the canvas. */
  constructor(private readonly scroller: HTMLElement, private readonly listener: Listener) {
    this.canvas = scroller.querySelector('canvas')!;
    this.outline = scroller.querySelector<HTMLElement>('.outline')!;
    this.spacer = this.canvas.parentElement!;
    this.renderer = new Renderer(this.canvas);
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(scroller);
    scroller.addEventListener('scroll', this.onScroll);
    this.canvas.addEventListener('pointermove', this.onPointer);
    this.canvas.addEventListener('pointerleave', this.onLeave);
    this.canvas.addEventListener('click', this.onClick);
    this.canvas.addEventListener('keydown', this.onKey);
    this.canvas.addEventListener('blur', this.onBlur);
    void document.fonts.load('500 12px "Inter Variable"').then(() => {
      this.renderer.measureFont();
      this.draw();
    });
  }

  destroy(): void {
    this.resizing.disconnect();
    cancelAnimationFrame(this.animation);
    cancelAnimationFrame(this.queued);
    clearTimeout(this.settling);
    this.flame = null;
  }

  /** New data, a new theme or a new zoom. Only a zoom within the same data moves; everything else is there at once. */
  show(flame: Flame, paint: Paint, focus: number): void {
    const sameData = flame === this.flame;
    if (!sameData) this.cursor = -1;
    const zoomed = focus !== this.focus;
    this.flame = flame;
    this.paint = paint;
    this.focus = focus;
    this.spacer.style.height = `${Math.max(flame.depth * ROW, this.renderer.height)}px`;
    const target = { lo: flame.x[focus], hi: flame.x[focus] + Math.max(flame.w[focus], 1e-12) };
    if (sameData && zoomed && !still.matches) {
      this.leave();
      this.animate(target);
      return;
    }
    cancelAnimationFrame(this.animation);
    this.view = target;
    this.draw();
    if (zoomed || !this.pointer) this.leave();
    else this.point(this.pointer.x, this.pointer.y); // the same place may be another function now
  }

  /** The width changes geometrically, so that a millionfold zoom moves as evenly as a twofold one. */
  private animate(target: View): void {
    cancelAnimationFrame(this.animation);
    const from = this.view, started = performance.now();
    const w0 = from.hi - from.lo, w1 = target.hi - target.lo;
    const tick = (now: number) => {
      const t = Math.min(1, Math.max(0, (now - started) / ZOOM_MS)), eased = 1 - (1 - t) ** 3;
      const w = w0 * (w1 / w0) ** eased;
      const share = Math.abs(w1 - w0) < 1e-15 ? eased : (w - w0) / (w1 - w0);
      const lo = from.lo + (target.lo - from.lo) * share;
      this.view = t < 1 ? { lo, hi: lo + w } : target;
      this.draw(t < 1);
      if (t < 1) this.animation = requestAnimationFrame(tick);
    };
    this.animation = requestAnimationFrame(tick);
  }

  private draw(moving = false): void {
    if (!this.flame || !this.paint || this.renderer.width === 0) return;
    this.renderer.draw(this.flame, this.paint, this.view, this.scroller.scrollTop, this.focus, moving);
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.scroller;
    if (clientWidth === 0) return;
    this.renderer.resize(clientWidth, clientHeight);
    if (this.flame) this.spacer.style.height = `${Math.max(this.flame.depth * ROW, clientHeight)}px`;
    this.leave();
    this.draw();
  }

  private frameAt(clientX: number, clientY: number): number {
    if (!this.flame) return -1;
    const box = this.canvas.getBoundingClientRect();
    const level = Math.floor((clientY - box.top + this.scroller.scrollTop) / ROW);
    return pick(this.flame, this.view, this.renderer.width, clientX - box.left, level);
  }

  private point(clientX: number, clientY: number): void {
    const frame = this.frameAt(clientX, clientY);
    this.showOutline(frame);
    this.canvas.style.cursor = frame >= 0 ? 'pointer' : 'default';
    this.listener.onSpot(frame >= 0 ? { frame, x: clientX, y: clientY } : null, false);
  }

  private showOutline(frame: number): void {
    const f = this.flame;
    this.outline.hidden = frame < 0 || !f;
    if (frame < 0 || !f) return;
    const k = this.renderer.width / (this.view.hi - this.view.lo);
    const left = Math.max(0, (f.x[frame] - this.view.lo) * k);
    const right = Math.min(this.renderer.width, (f.x[frame] + f.w[frame] - this.view.lo) * k);
    this.outline.style.transform = `translate(${left}px, ${levelOf(f, frame) * ROW}px)`;
    this.outline.style.width = `${Math.max(2, right - left - 1)}px`;
    this.outline.style.height = `${ROW - 1}px`;
  }

  private leave(): void {
    this.showOutline(-1);
    this.listener.onSpot(null, false);
  }

  private readonly onPointer = (e: PointerEvent): void => {
    if (e.pointerType === 'touch') return; // a finger hides what a tooltip would tell; the path above the graph tells it
    this.pointer = { x: e.clientX, y: e.clientY };
    this.point(e.clientX, e.clientY);
  };

  private readonly onLeave = (): void => {
    this.pointer = null;
    this.leave();
  };

  private readonly onBlur = (): void => {
    this.cursor = -1;
    this.leave();
  };

  /** A click on the zoomed frame goes one up, any other click zooms. */
  private readonly onClick = (e: MouseEvent): void => {
    const frame = this.frameAt(e.clientX, e.clientY);
    if (frame < 0 || !this.flame) return;
    this.cursor = frame;
    this.listener.onZoom(frame === this.focus ? Math.max(ROOT, this.flame.parent[frame]) : frame);
  };

  private readonly onScroll = (): void => {
    this.leave();
    this.queued ||= requestAnimationFrame(() => {
      this.queued = 0;
      this.draw(true);
    });
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.draw(), SETTLE_MS);
  };

  private readonly onKey = (e: KeyboardEvent): void => {
    if (!this.flame || e.ctrlKey || e.metaKey || e.altKey) return;
    const at = this.cursor < 0 ? this.focus : this.cursor;
    if (e.key === 'Enter') this.listener.onZoom(at);
    else if (e.key === 'Escape') this.listener.onZoom(ROOT);
    else if (e.key.startsWith('Arrow')) this.moveTo(this.cursor < 0 ? at : this.neighbour(at, e.key));
    else return;
    e.preventDefault();
  };

  /** Down is the heaviest callee, up the caller, sideways the next frame of the same caller. */
  private neighbour(frame: number, key: string): number {
    const f = this.flame!;
    if (key === 'ArrowUp') return Math.max(ROOT, f.parent[frame]);
    if (key === 'ArrowDown') {
      const child = heaviestChild(f, frame);
      return child < 0 ? frame : child;
    }
    const next = frame + (key === 'ArrowRight' ? 1 : -1);
    return next > ROOT && next < f.count && f.parent[next] === f.parent[frame] ? next : frame;
  }

  private moveTo(frame: number): void {
    const f = this.flame!, level = levelOf(f, frame), top = level * ROW;
    // Scrolling hides the outline, so the outline waits until the scroll event is over.
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.scroller.scrollTop = top + ROW - clientHeight;
    this.cursor = frame;
    const place = () => {
      this.showOutline(frame);
      const box = this.canvas.getBoundingClientRect(), k = this.renderer.width / (this.view.hi - this.view.lo);
      const x = box.left + Math.min(this.renderer.width - 40, Math.max(0, (f.x[frame] - this.view.lo) * k));
      this.listener.onSpot({ frame, x, y: box.top + top + ROW - this.scroller.scrollTop }, true);
    };
    if (this.scroller.scrollTop === scrollTop) place();
    else requestAnimationFrame(() => requestAnimationFrame(place));
    // A frame outside the zoomed part cannot be outlined: step out to it.
    if (f.x[frame] + f.w[frame] <= this.view.lo || f.x[frame] >= this.view.hi) this.listener.onZoom(ROOT);
  }
}
