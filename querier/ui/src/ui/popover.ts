// What opens below a button: gets the focus, closes on Escape, on a click elsewhere and when the focus leaves.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export function usePopover() {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null), button = useRef<HTMLButtonElement>(null);
  const close = (back: boolean) => {
    setOpen(false);
    if (back) button.current?.focus();
  };
  // Before anything else can happen: the next key belongs to the panel.
  useLayoutEffect(() => {
    if (!open) return undefined;
    const panel = box.current!.querySelector<HTMLElement>('[role=dialog]')!;
    (panel.querySelector<HTMLElement>('[aria-current], [autofocus]') ?? panel.querySelector<HTMLElement>('button, input, select'))?.focus();
    const outside = (e: Event) => {
      if (!box.current!.contains(e.target as Node)) close(false);
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
    };
  }, [open]);
  const onKeyDown = (e: KeyboardEvent) => {
    if (!open || e.key !== 'Escape') return;
    e.stopPropagation();
    close(true);
  };
  return { open, setOpen, close, box, button, onKeyDown };
}
