// Package wire writes and parses the calls of the two protocols that poold also serves: in_php and create_task. It has
// their fields and error codes; package provider has some paths, too, and the fields of further protocols. The names of
// the types of CAPTCHA and of their fields are in the table of types in package captcha.
//
// A client (package provider) writes orders. A service (packages simulated and httpapi) parses them, and makes its
// responses with the methods of Call.
// All functions are pure. The parsers are strict: a call with a repeated field or a value of the wrong
// kind gets an error code in Bad. Submission.Undone lists the unknown fields of an order, so that a service
// can refuse the order. The parsers accept the fields that the clients of any supported service send.
// The package does not check whether an identity is complete and valid (package targets does), checks
// no keys and stores no tasks.
package wire
