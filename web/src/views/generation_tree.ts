import { hierarchy, tree as treeLayout } from "d3-hierarchy";
import type { BeamNode, GenerateLine } from "../data/types";
import { visible } from "../data/words";
import { fitted, type Pen } from "../draw/pen";
import type { Sight } from "../draw/picture";
import type { Theme } from "../draw/theme";

const kAcross = 92;
const kDown = 26;

interface Placed {
  node: BeamNode;
  x: number;
  y: number;
  parent: Placed | null;
}

interface Branch {
  id: number;
  children: Branch[];
}

/** What beam search tried: every node it made, and those it kept. */
export class BeamTree {
  readonly nodes = new Map<number, BeamNode>();
  placed: Placed[] = [];
  height = 60;
  private depths = new Map<number, number>();
  private text: string | null = null;

  add(line: GenerateLine): void {
    for (const node of line.nodes ?? []) {
      this.nodes.set(node.id, node);
      this.depths.set(node.id, (this.depths.get(node.parent) ?? 0) + 1);
    }
    if (line.done) this.text = line.text ?? null;
    if (line.nodes) this.place();
  }

  depth(node: BeamNode): number {
    return this.depths.get(node.id) ?? 1;
  }

  path(node: BeamNode): BeamNode[] {
    const path: BeamNode[] = [];
    for (let at: BeamNode | undefined = node; at; at = this.nodes.get(at.parent)) path.unshift(at);
    return path;
  }

  /** The hypothesis that became the text; while it runs, the likeliest so far. */
  best(): BeamNode[] {
    const depth = Math.max(0, ...this.depths.values());
    const ends = [...this.nodes.values()].filter((node) => node.kept && (node.finished || this.depth(node) === depth));
    if (this.text !== null) {
      const wanted = squeezed(this.text);
      const exact = ends.map((end) => this.path(end)).filter((path) => squeezed(path.filter((n) => n.token.kind !== "special").map((n) => n.token.text).join("")) === wanted);
      if (exact.length > 0) return exact.reduce((a, b) => (a[a.length - 1]!.logp >= b[b.length - 1]!.logp ? a : b));
    }
    const mean = (node: BeamNode) => node.logp / this.depth(node);
    return ends.length ? this.path(ends.reduce((a, b) => (mean(b) > mean(a) ? b : a))) : [];
  }

  at(x: number, y: number): BeamNode | null {
    return this.placed.find((one) => Math.abs(one.y - y) < kDown / 2 && x >= one.x - 6 && x < one.x + kAcross - 10)?.node ?? null;
  }

  /** The node an arrow key leads to. */
  neighbour(from: BeamNode, key: string): BeamNode | null {
    const here = this.placed.find((one) => one.node === from);
    if (!here) return null;
    const nearest = (list: Placed[]) => list.reduce<Placed | null>((best, one) => (!best || Math.abs(one.y - here.y) < Math.abs(best.y - here.y) ? one : best), null)?.node ?? null;
    if (key === "ArrowLeft") return here.parent?.node ?? null;
    if (key === "ArrowRight") return nearest(this.placed.filter((one) => one.parent === here));
    if (key === "ArrowUp") return nearest(this.placed.filter((one) => one.x === here.x && one.y < here.y));
    if (key === "ArrowDown") return nearest(this.placed.filter((one) => one.x === here.x && one.y > here.y));
    return null;
  }

  private place(): void {
    const branches = new Map<number, Branch>();
    const rootOf: Branch = { id: -1, children: [] };
    for (const node of this.nodes.values()) branches.set(node.id, { id: node.id, children: [] });
    for (const node of this.nodes.values()) (branches.get(node.parent) ?? rootOf).children.push(branches.get(node.id)!);
    const laid = treeLayout<Branch>().nodeSize([kDown, kAcross]).separation(() => 1)(hierarchy(rootOf));
    const found = new Map<number, Placed>();
    let [least, most] = [Infinity, -Infinity];
    laid.each((point) => {
      if (point.data.id < 0 || !this.nodes.has(point.data.id)) return;
      [least, most] = [Math.min(least, point.x), Math.max(most, point.x)];
      found.set(point.data.id, { node: this.nodes.get(point.data.id)!, x: (point.depth - 1) * kAcross + 10, y: point.x, parent: found.get(point.parent!.data.id) ?? null });
    });
    this.placed = [...found.values()];
    for (const one of this.placed) one.y += 24 - least;
    this.height = most - least + 48;
  }
}

function squeezed(text: string): string {
  return text.replace(/\s+/g, "");
}

export function treeSize(tree: BeamTree, available: number): { width: number; height: number } {
  const depth = Math.max(1, ...[...tree.nodes.values()].map((node) => tree.depth(node)));
  return { width: Math.max(Math.min(available, 320), depth * kAcross + 20), height: Math.max(60, tree.height) };
}

export function drawTree(pen: Pen, tree: BeamTree, sight: Sight, theme: Theme, chosen: BeamNode | null): void {
  const best = new Set(tree.best());
  const seen = tree.placed.filter((one) => one.x > sight.left - 2 * kAcross && one.x < sight.right + kAcross);
  for (const onBest of [false, true]) {
    const ends = seen.filter((one) => one.parent && best.has(one.node) === onBest).flatMap((one) => [one.parent!.x + 5, one.parent!.y, one.x - 5, one.y]);
    pen.curves(ends, { colour: onBest ? theme.accent : theme.faint, width: onBest ? 2.5 : 1.2 });
  }
  for (const { node, x, y } of seen) {
    const colour = best.has(node) ? theme.accent : node.kept ? theme.soft : theme.faint;
    pen.circle(x, y, node === chosen ? 6 : 2.5 + 3 * Math.sqrt(node.p), { fill: colour, ...(node === chosen ? { stroke: theme.ink, width: 2 } : {}) });
    const text = fitted(visible(node.token.text) || "∅", kAcross - 46, { size: 13 });
    pen.text(text, x + 9, y - 3, { colour: node.kept ? theme.ink : theme.soft, size: 13, weight: best.has(node) ? 600 : 400, italic: node.token.kind === "special" });
    pen.text(node.p.toFixed(2), x + 9, y + 9, { colour: theme.soft, size: 9 });
  }
}
