// Package status says how the daemon is doing: one document, made from one snapshot.
//
// # Place in the flow
//
// It stands between those who know (the configuration file, the stock in Redis, refill,
// the buyer and its dead letters, what is kept of on-demand solves) and those who read: the page, /status.json,
// GET /pool/{target} and /metrics of httpapi, and `poold status`, which decodes the
// same types. It asks, and changes nothing; it knows no HTTP.
//
// # Parts
//
//   - document.go: the document, with its JSON names, which are a promise.
//   - collector.go: the Collector, which asks the sources and makes a Snapshot;
//     survey.go asks the stock, in parts. ondemand.go asks about on-demand solves,
//     beside the rest (told.go).
//   - target.go, notices.go, figures.go: what the sources said, put into words and
//     rounded.
//   - cause.go: why a target is as it is, in the words that callers hear too.
//   - snapshot.go, metrics.go: what readers get. cached.go keeps it for a while.
//   - feed.go: the Feed, which tells many readers what changes in it; copy.go: the Copy,
//     which puts together what a reader elsewhere is told.
//   - order.go: the order in which people look at targets.
//
// # Invariants
//
//   - All readers see one snapshot, so they cannot disagree.
//   - A snapshot and its document are not altered once they are made.
//   - However many read, Redis is asked a few times a second at most.
//   - While Redis does not answer a snapshot is made within a second, with the last
//     known figures and the reason; metrics then leave those figures out.
//   - On-demand solves hold up a snapshot by a quarter of a second at most. A question
//     about them that takes longer goes on for 10 s at most, whoever still looks.
//   - A figure is rounded where it is made: what one reader sees, all see.
//   - Neither a token nor a key is in it.
package status
