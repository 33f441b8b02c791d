// Package page renders the status page: one HTML page from a status.Document. The folder web has its template, its
// style and htmx, unchanged. All files are embedded in the binary.
//
// The address (Params) selects the tab, the opened target, the search and the order. So every view, link and form works
// without JavaScript. htmx adds two things: it renews the parts of the page that change, and it sends the search while
// the user types. A page whose renewal stops says so by an animation of its style.
//
// The package knows neither requests nor rights; package httpapi passes what the caller may see.
package page
