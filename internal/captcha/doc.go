// Package captcha has the types that most other packages share: the types of CAPTCHA, the identity of
// a solve, the named values of a solution, and a string type for secrets.
//
// The package imports no other package of poold and does no I/O, so any package may import it.
package captcha
