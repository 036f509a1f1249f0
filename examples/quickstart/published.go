package main

import "time"

// publishedMean is one measure's mean of the published experiment, without and with TLS.
type publishedMean struct{ off, on time.Duration }

// published is what the experiment found for MongoDB: a replica set of 3 nodes and 1 read-only node of 1 core and 2 GB each, MongoDB 4.2,
// a client machine of 2 cores and 4 GB, 1,000,000 documents, 5,000 iterations of a find-one. None was published for MySQL.
var published = struct{ build, first, total, reused publishedMean }{
	build:  publishedMean{3700900, 19851500},
	first:  publishedMean{20745600, 43588400},
	total:  publishedMean{24446500, 63439900},
	reused: publishedMean{750600, 764300},
}

const publishedNote = "published: MongoDB 4.2, a replica set on 1-core machines over a real network, means of 5,000 iterations; compare " +
	"the shape, not the values. There building the client included its first connections; Go's driver connects in the first query."
