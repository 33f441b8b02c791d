// Package captcha holds the words that most other packages share: the kinds
// of CAPTCHA, the identity of a solve, and a string type for secrets.
//
// It imports nothing of poold and does no I/O, so that anything may import it.
package captcha
