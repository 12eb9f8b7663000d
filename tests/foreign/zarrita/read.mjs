// Reads arrays over HTTP with zarrita.js, like a page in a browser, and prints the results as JSON.
//
// node read.mjs URL_OF_ZARRITA JOBS
// JOBS: JSON, a list of {url, path, suffix, selection, list}: list: return the nodes in the consolidated metadata, as {contents}; suffix: whether a range may count from the end (else the size is requested first);
// selection: for each dimension null, an integer or [start, stop, step].
// Prints a list of {attributes, shape, dtype, data}, data in C order; {error} if reading failed.

const [zarrita, jobs] = process.argv.slice(2);
const zarr = await import(zarrita);

// BigInts and values that JSON does not support become text.
const plain = (value) => (typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value)) ? String(value) : value);

async function read({ url, path, suffix, selection, list }) {
	const store = new zarr.FetchStore(url, { useSuffixRequest: suffix });
	if (list) return { contents: (await zarr.withConsolidatedMetadata(store)).contents() };
	const root = zarr.root(store);
	const array = await zarr.open(path ? root.resolve(path) : root, { kind: "array" });
	const picked = selection && selection.map((one) => (Array.isArray(one) ? zarr.slice(...one) : one));
	const region = await zarr.get(array, picked);
	const told = { attributes: array.attrs, dtype: array.dtype };
	if (array.shape.length === 0) return { ...told, shape: [], data: [plain(region)] };
	return { ...told, shape: region.shape, data: inOrder(region).map(plain) };
}

// The elements of a region in C order: zarrita leaves them in the order of the chunks.
function inOrder({ data, shape, stride }) {
	const values = Array.from(data);
	let places = [0];
	for (const [axis, extent] of shape.entries()) {
		places = places.flatMap((place) => Array.from({ length: extent }, (_, i) => place + i * stride[axis]));
	}
	return places.map((place) => values[place]);
}

const found = [];
for (const job of JSON.parse(jobs)) {
	try {
		found.push(await read(job));
	} catch (error) {
		found.push({ error: String(error) });
	}
}
console.log(JSON.stringify(found));
