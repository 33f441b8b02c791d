// Package captcha holds the words that most other packages share: the kinds
// of CAPTCHA, the identity of a solve, the named values of a solution, and a string
// type for secrets.
//
// It imports nothing of poold and does no I/O, so that anything may import it.
package captcha
