import { App } from "./app";
import { OfflineSource } from "./data/offline";
import { ServerSource } from "./data/server";
import type { InspectFile } from "./data/types";

const stored = document.getElementById("attend-data");
const source = stored ? new OfflineSource(JSON.parse(stored.textContent!) as InspectFile) : new ServerSource();
new App(document.getElementById("page")!, source).start();
