// Package page shows the status: as an HTML page for people, as JSON for programs. The
// page, its script, its style and the chart library lie in web and are embedded.
//
// Every answer is one snapshot of package status. A key that is limited to some targets
// sees those alone. The script, the style and the icon hold no data, so they need no key.
package page
