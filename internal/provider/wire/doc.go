// Package wire writes and parses the calls of both protocols of solving services. The names of
// calls, fields and error codes are defined only in this package.
//
//	legacy.go  in.php and res.php: the calls;  legacyfields.go: the fields;  legacyanswer.go
//	tasks.go   createTask and its family;      task.go: the fields;          tasksanswer.go
//	order.go   an order of either protocol, checked by check.go; picture.go; harmless.go
//	codes.go   the error codes and their numbers
//
// A client (package provider) writes orders with LegacyForm and CreateTask. A service (packages
// simulated and httpapi) parses orders with ReadLegacy and ReadTasks. Both directions use the same
// lists of fields: legacyFields for in.php, and the struct Task for createTask. A new field of an
// identity needs one line in legacyFields. It also needs a field in Task, with a line in CreateTask
// and in Task.read.
//
// All functions are pure. The parsers are strict: a call with a repeated field or an invalid value
// gets an error code in Bad. Order.Undone lists the unknown fields of an order, so that a service
// can refuse the order. Order.Ignored lists the fields that have no effect.
//
// The parsers accept the fields that the clients of any supported service send. The package checks
// no keys and stores no tasks.
package wire
