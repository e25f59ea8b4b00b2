// The flame graph as a thing on the page: a canvas as large as its visible part, sticky in a tall spacer, plus an
// outline. It owns what moves every frame (scrolling, zooming, pointing) and tells the page of choices; the page owns
// what lasts (the data, the zoomed frame) and hands it down.
import { firstBeyond, levelAt, pick, Renderer, ROW, tallOf, topOf, type Drawing, type Picture, type View } from './draw';
import { findFrame, frameKey, heaviestChild, levelOf, ROOT } from './model';

export interface Spot { frame: number; x: number; y: number } // client pixels

export interface Listener {
  /** `asked`: of this very frame, not of the surroundings of another. */
  onZoom(frame: number, asked?: boolean): void;
  /** The frame under the pointer, or under the keyboard's cursor, or none. */
  onSpot(spot: Spot | null, byKey: boolean): void;
  /** A menu of what can be done with a frame is asked for. */
  onMenu(spot: Spot): void;
}

const ZOOM_MS = 220, SETTLE_MS = 90;
const NARROWEST = 1e-9; // part of the root that the wheel zooms to
/** A frame that is shown to somebody has so many pixels, and where the picture must move for it, so many. */
const SEEN_PX = 24, SHOWN_PX = 60;
const WHEEL_PER_PX = 0.002, DRAG_FROM_PX = 4;
/** A finger that stays so long asks for the menu. Not all browsers tell of it. */
const PRESS_MS = 500, PRESS_PX = 10;
const still = matchMedia('(prefers-reduced-motion: reduce)');

/** One picture with all rows of what can be seen of it, to be drawn on something else. */
export interface Print { width: number; height: number; deeper: number; draw(on: Drawing, x: number, y: number): void }

/** Canvases have a greatest height, and so have people. */
const PRINTED_ROWS = 700;

const shown = new Set<FlameView>();

export class FlameView {
  /** Those on screen, from the top down. */
  static pictures(): Print[] {
    const top = (v: FlameView) => v.scroller.getBoundingClientRect().top;
    return [...shown].filter((v) => v.picture && v.renderer.width > 0).sort((a, b) => top(a) - top(b)).map((v) => v.print());
  }

  private readonly renderer: Renderer;
  private readonly spacer: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly outline: HTMLElement;
  private readonly resizing: ResizeObserver;
  private picture: Picture | null = null;
  private view: View = { lo: 0, hi: 1 };
  private byHand = false; // the view is not that of the zoomed frame
  private cursor = -1; // of the keyboard
  private told = false; // a frame is outlined and told of
  private walking = false; // what is told is the frame of the cursor, not that under the pointer
  private awaited = -1; // to be told of when the picture stands still
  private pointer: { x: number; y: number } | null = null;
  private drag: { x: number; from: View; moved: boolean } | null = null;
  private dragged = false; // the click that follows a drag or a long press is none
  private press: { timer: number; x: number; y: number } | null = null; // a finger that may stay
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
    shown.add(this);
    scroller.addEventListener('scroll', this.onScroll);
    const { canvas } = this;
    canvas.addEventListener('pointerdown', this.onDown);
    canvas.addEventListener('pointermove', this.onPointer);
    canvas.addEventListener('pointerup', this.onUp);
    canvas.addEventListener('pointercancel', this.onUp);
    canvas.addEventListener('pointerleave', this.onLeave);
    canvas.addEventListener('click', this.onClick);
    canvas.addEventListener('contextmenu', this.onContextMenu);
    canvas.addEventListener('wheel', this.onWheel, { passive: false });
    canvas.addEventListener('keydown', this.onKey);
    canvas.addEventListener('blur', this.onBlur);
    const measure = () => {
      this.renderer.measureFont();
      this.draw();
    };
    document.fonts.load('500 12px "Inter Variable"').then(measure, measure); // without it another font is drawn
  }

  destroy(): void {
    shown.delete(this);
    this.resizing.disconnect();
    cancelAnimationFrame(this.animation);
    cancelAnimationFrame(this.queued);
    clearTimeout(this.settling);
    this.lift();
    this.picture = null;
  }

  private print(): Print {
    const { picture, view, renderer: { width } } = this, { flame: f, shape } = picture!;
    const empty = (level: number) => {
      const end = f.levelStart[level + 1], i = firstBeyond(f, f.levelStart[level], end, view.lo);
      return i === end || f.x[i] >= view.hi;
    };
    let deepest = f.depth - 1;
    while (deepest > shape.firstLevel && empty(deepest)) deepest--;
    const rows = deepest - shape.firstLevel + 1, height = Math.min(PRINTED_ROWS, rows) * ROW;
    return {
      width, height, deeper: Math.max(0, rows - PRINTED_ROWS),
      draw: (on, x, y) => {
        const renderer = Object.assign(new Renderer(this.canvas, on), { width, height, origin: { x, y } });
        renderer.draw(picture!, view, shape.upward ? tallOf(f, shape, height) - height : 0, false);
      },
    };
  }

  /** New data, new colours or a new zoom. Only a zoom within the same data moves; everything else is there at once. */
  show(picture: Picture): void {
    const { flame, focus, shape } = picture, before = this.picture, sameData = flame === before?.flame;
    const newer = !sameData && before !== null && before.place === picture.place; // values of what is looked at
    if (newer && this.cursor > ROOT) this.cursor = findFrame(flame, frameKey(before.flame, this.cursor));
    else if (!sameData && !newer) this.cursor = -1;
    const zoomed = sameData ? focus !== before?.focus : !newer;
    if (zoomed) this.byHand = false;
    this.picture = picture;
    this.setHeight();
    if (!sameData && !newer && shape.upward) this.scroller.scrollTop = this.scroller.scrollHeight;
    const target = { lo: flame.x[focus], hi: flame.x[focus] + Math.max(flame.w[focus], 1e-12) };
    if (sameData && zoomed && !still.matches) {
      this.leave();
      this.animate(target);
      return;
    }
    if ((!sameData || zoomed) && !this.byHand) {
      cancelAnimationFrame(this.animation);
      this.view = target;
    }
    this.draw();
    if (zoomed) this.leave();
    else this.tellAgain();
    if (zoomed) this.tellAwaited();
  }

  /** The same place may be another function now, and the same function elsewhere. */
  private tellAgain(): void {
    if (this.walking && this.cursor >= 0) this.tell(this.cursor);
    else if (this.pointer && !this.drag?.moved) this.point(this.pointer.x, this.pointer.y);
    else this.leave();
  }

  /** The width changes geometrically, so that a millionfold zoom moves as evenly as a twofold one. */
  private animate(target: View): void {
    cancelAnimationFrame(this.animation);
    delete this.canvas.dataset.drawn;
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
      else this.tellAwaited();
    };
    this.animation = requestAnimationFrame(tick);
  }

  private draw(moving = false): void {
    if (!this.picture || this.renderer.width === 0) return;
    this.renderer.draw(this.picture, this.view, this.scroller.scrollTop, moving);
    if (moving) delete this.canvas.dataset.drawn; // says that the picture stands still
    else this.canvas.dataset.drawn = String(this.picture.flame.count);
  }

  /** Many changes in a row: one coarse picture per screen frame, and a fine one when they are over. */
  private drawSoon(): void {
    delete this.canvas.dataset.drawn;
    this.queued ||= requestAnimationFrame(() => {
      this.queued = 0;
      this.draw(true);
    });
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.draw(), SETTLE_MS);
  }

  private setHeight(): void {
    const p = this.picture, height = this.renderer.height;
    if (p) this.spacer.style.height = `${tallOf(p.flame, p.shape, height)}px`;
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.scroller;
    if (clientWidth === 0) return;
    this.renderer.resize(clientWidth, clientHeight);
    this.setHeight();
    if (this.picture?.shape.upward) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.draw();
    this.tellAgain();
  }

  private frameAt(clientX: number, clientY: number): number {
    if (!this.picture) return -1;
    const { flame, shape } = this.picture, box = this.canvas.getBoundingClientRect();
    const level = levelAt(flame, shape, clientY - box.top + this.scroller.scrollTop, this.renderer.height);
    return pick(flame, this.view, this.renderer.width, clientX - box.left, level);
  }

  private point(clientX: number, clientY: number): void {
    const frame = this.frameAt(clientX, clientY);
    this.walking = false;
    this.showOutline(frame);
    this.canvas.style.cursor = frame >= 0 ? 'pointer' : 'default';
    if (frame >= 0) this.listener.onSpot({ frame, x: clientX, y: clientY }, false);
    else if (this.told) this.listener.onSpot(null, false);
    this.told = frame >= 0;
  }

  /** Left and right edge of a frame in pixels of the canvas, as far as they are on it. */
  private edges(frame: number): [number, number] {
    const f = this.picture!.flame, k = this.renderer.width / (this.view.hi - this.view.lo);
    return [
      Math.max(0, (f.x[frame] - this.view.lo) * k),
      Math.min(this.renderer.width, (f.x[frame] + f.w[frame] - this.view.lo) * k),
    ];
  }

  private topOf(frame: number): number {
    const { flame, shape } = this.picture!;
    return topOf(flame, shape, levelOf(flame, frame), this.renderer.height);
  }

  private showOutline(frame: number): void {
    this.outline.hidden = frame < 0 || !this.picture;
    if (this.outline.hidden) return;
    const [left, right] = this.edges(frame);
    this.outline.style.transform = `translate(${left}px, ${this.topOf(frame)}px)`;
    this.outline.style.width = `${Math.max(2, right - left - 1)}px`;
    this.outline.style.height = `${ROW - 1}px`;
  }

  private leave(): void {
    this.walking = false;
    this.showOutline(-1);
    if (this.told) this.listener.onSpot(null, false);
    this.told = false;
  }

  private readonly onDown = (e: PointerEvent): void => {
    this.dragged = false;
    this.lift();
    if (e.pointerType === 'touch' && e.isPrimary) this.press = { timer: window.setTimeout(this.onPressed, PRESS_MS), x: e.clientX, y: e.clientY };
    if (e.button !== 0 || e.pointerType === 'touch' || this.view.hi - this.view.lo >= 1) return;
    this.drag = { x: e.clientX, from: this.view, moved: false };
  };

  private readonly onPointer = (e: PointerEvent): void => {
    if (this.press && Math.hypot(e.clientX - this.press.x, e.clientY - this.press.y) > PRESS_PX) this.lift();
    if (e.pointerType === 'touch') return; // a finger hides what a tooltip would tell; the path above the graph tells it
    if (this.drag) {
      this.pan(e);
      if (this.drag.moved) return;
    }
    this.pointer = { x: e.clientX, y: e.clientY };
    this.point(e.clientX, e.clientY);
  };

  /** A zoomed picture can be pulled sideways. */
  private pan(e: PointerEvent): void {
    const drag = this.drag!, by = e.clientX - drag.x;
    if (!drag.moved && Math.abs(by) < DRAG_FROM_PX) return;
    if (!drag.moved) {
      drag.moved = true;
      this.canvas.setPointerCapture(e.pointerId);
      cancelAnimationFrame(this.animation);
      this.leave();
    }
    const w = drag.from.hi - drag.from.lo;
    this.moveView(drag.from.lo - (by / this.renderer.width) * w, w);
  }

  private readonly onUp = (): void => {
    this.dragged ||= this.drag?.moved ?? false;
    this.drag = null;
    this.lift();
  };

  private lift(): void {
    clearTimeout(this.press?.timer);
    this.press = null;
  }

  private readonly onPressed = (): void => {
    if (!this.press) return;
    const { x, y } = this.press, frame = this.frameAt(x, y);
    this.lift();
    this.dragged = true;
    if (frame >= 0) this.listener.onMenu({ frame, x, y });
  };

  private moveView(lo: number, w: number): void {
    const width = Math.min(1, Math.max(NARROWEST, w)), left = Math.min(1 - width, Math.max(0, lo));
    this.view = { lo: left, hi: left + width };
    this.byHand = true;
    this.drawSoon();
  }

  /** With Ctrl or ⌘, which a pinch sends too, the wheel zooms about the pointer. A plain wheel scrolls. */
  private readonly onWheel = (e: WheelEvent): void => {
    if (!this.picture || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    cancelAnimationFrame(this.animation);
    this.leave();
    const { lo, hi } = this.view, part = (e.clientX - this.canvas.getBoundingClientRect().left) / this.renderer.width;
    const w = (hi - lo) * Math.exp(e.deltaY * (e.deltaMode === 1 ? 16 : 1) * WHEEL_PER_PX);
    this.moveView(lo + part * (hi - lo) - part * Math.min(1, w), w);
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
    if (this.dragged) return;
    const frame = this.frameAt(e.clientX, e.clientY), p = this.picture;
    if (frame < 0 || !p) return;
    this.cursor = frame;
    if (frame !== p.focus) this.listener.onZoom(frame);
    else if (this.byHand) this.comeBack();
    else this.listener.onZoom(Math.max(ROOT, p.flame.parent[frame]));
  };

  /** Back to the zoomed frame after the picture was pulled or zoomed by the wheel. */
  private comeBack(): void {
    const { flame: f, focus } = this.picture!;
    this.byHand = false;
    this.view = { lo: f.x[focus], hi: f.x[focus] + Math.max(f.w[focus], 1e-12) };
    this.draw();
  }

  private readonly onContextMenu = (e: MouseEvent): void => {
    if ((e as PointerEvent).pointerType === 'touch') { // the browser's own long press
      e.preventDefault();
      this.onPressed();
      return;
    }
    // A keyboard's menu key has no place of its own: it means the frame of the cursor.
    const byKey = e.button !== 2 && this.cursor >= 0, frame = byKey ? this.cursor : this.frameAt(e.clientX, e.clientY);
    if (frame < 0) return;
    e.preventDefault();
    this.listener.onMenu(byKey ? this.spotOf(frame) : { frame, x: e.clientX, y: e.clientY });
  };

  private readonly onScroll = (): void => {
    this.leave();
    this.drawSoon();
  };

  private readonly onKey = (e: KeyboardEvent): void => {
    if (!this.picture || e.ctrlKey || e.metaKey || e.altKey) return;
    const at = this.cursor < 0 ? this.picture.focus : this.cursor;
    if (e.key === 'Enter') this.listener.onZoom(at);
    else if (e.key === 'Escape' && this.byHand) {
      e.stopPropagation(); // first the place, then what Escape means to the page
      this.comeBack();
    }
    else if (e.key.startsWith('Arrow')) this.moveTo(this.cursor < 0 ? at : this.neighbour(at, e.key));
    else return;
    e.preventDefault();
  };

  /** Down is the heaviest callee, up the caller, sideways the next frame of the same caller; upward is mirrored. */
  private neighbour(frame: number, key: string): number {
    const { flame: f, shape } = this.picture!;
    const [deeper, back] = shape.upward ? ['ArrowUp', 'ArrowDown'] : ['ArrowDown', 'ArrowUp'];
    if (key === back) return Math.max(ROOT, f.parent[frame]);
    if (key === deeper) {
      const child = heaviestChild(f, frame);
      return child < 0 ? frame : child;
    }
    const next = frame + (key === 'ArrowRight' ? 1 : -1);
    return next > ROOT && next < f.count && f.parent[next] === f.parent[frame] ? next : frame;
  }

  private spotOf(frame: number): Spot {
    const box = this.canvas.getBoundingClientRect(), [left] = this.edges(frame);
    const x = box.left + Math.min(this.renderer.width - 40, left);
    return { frame, x, y: box.top + this.topOf(frame) + ROW - this.scroller.scrollTop };
  }

  private moveTo(to: number): void {
    const { flame: f, shape } = this.picture!, frame = levelOf(f, to) < shape.firstLevel ? this.firstShown() : to;
    const top = this.topOf(frame), { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scrollAndTell(frame, top);
    else this.scrollAndTell(frame, Math.max(scrollTop, top + ROW - clientHeight));
    // A frame outside the zoomed part cannot be outlined: step out to it.
    if (f.x[frame] + f.w[frame] <= this.view.lo || f.x[frame] >= this.view.hi) this.listener.onZoom(ROOT);
  }

  /** Scrolling hides the outline, so the outline waits until the scroll event is over. */
  private scrollAndTell(frame: number, to: number): void {
    const { flame: f } = this.picture!, { scrollTop } = this.scroller;
    this.scroller.scrollTop = to;
    this.cursor = frame;
    if (this.scroller.scrollTop === scrollTop) this.tell(frame);
    else requestAnimationFrame(() => requestAnimationFrame(() => this.picture?.flame === f && this.cursor === frame && this.tell(frame)));
  }

  /** Shows a frame: in its row, and if it is narrow or elsewhere zoomed as far as it needs to be seen among others. */
  reveal(frame: number): void {
    const { flame: f, focus } = this.picture!, { lo, hi } = this.view, { width } = this.renderer;
    this.awaited = frame;
    if (f.x[frame] < hi && f.x[frame] + f.w[frame] > lo && (f.w[frame] / (hi - lo)) * width >= SEEN_PX) {
      this.tellAwaited();
      return;
    }
    let around = frame;
    while (around !== ROOT && (f.w[frame] / f.w[f.parent[around]]) * width >= SHOWN_PX) around = f.parent[around];
    if (around !== focus) this.listener.onZoom(around, false);
    else {
      this.comeBack();
      this.tellAwaited();
    }
  }

  private tellAwaited(): void {
    const frame = this.awaited, { clientHeight, scrollTop } = this.scroller;
    this.awaited = -1;
    if (frame < 0) return;
    const top = this.topOf(frame), seen = top >= scrollTop && top + ROW <= scrollTop + clientHeight;
    this.scrollAndTell(frame, seen ? scrollTop : Math.max(0, top - clientHeight / 2));
  }

  /** Of the keyboard's frame. */
  private tell(frame: number): void {
    this.walking = this.told = true;
    this.showOutline(frame);
    this.listener.onSpot(this.spotOf(frame), true);
  }

  /** Where the walk begins if the root has no row. */
  private firstShown(): number {
    const child = heaviestChild(this.picture!.flame, ROOT);
    return child < 0 ? ROOT : child;
  }
}
