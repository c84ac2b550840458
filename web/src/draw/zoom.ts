/** Which events zoom or move a picture. A single finger scrolls the page until the picture is zoomed. */
export function zoomFilter(isZoomed: () => boolean): (event: Event) => boolean {
  return (event) => {
    if (event.type.startsWith("touch")) return isZoomed() || (event as TouchEvent).touches.length > 1;
    const { ctrlKey, button } = event as MouseEvent;
    return (!ctrlKey || event.type === "wheel") && !button;
  };
}
