// Package status builds the one document about the state of the daemon: /status.json, the page, GET /pool/{target},
// /metrics and `poold status` all render it.
//
//   - document.go: the document. Its JSON names never change.
//   - build.go: the Collector, which reads the sources and makes a Document of them.
//   - convert.go: the parts of the Document, each made of what the Collector read.
//   - notices.go: the lines for the operator, and the reasons that the document shows and callers without a token get.
//   - metrics.go: the document as metrics; one table has their names, texts and values.
//
// A document is immutable. It is built on request, at most once a second, and its readers share it. While
// Redis does not answer, a document takes at most a second; it has the last known figures and the reason, and the
// metrics omit these figures. Figures are rounded here, so that all readers show the same digits. The document
// contains no token and no key. The package changes no state.
package status
