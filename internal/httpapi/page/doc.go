// Package page serves the status: as an HTML page for people and as JSON for programs. The folder
// web contains the page, its script, its style and the chart library. All files are embedded in the
// binary.
//
// Every response comes from one snapshot of package status. A key that is limited to some targets
// sees only these targets. The script, the style and the icon contain no data, so they need no key.
package page
