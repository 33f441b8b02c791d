// Package dynamostore keeps the history in one table of Amazon DynamoDB, which other programs may query too. Keys are
// PK and SK; the index GSI1 has the keys GSI1PK and GSI1SK and shows all attributes; the attribute ttl is when an
// item ends, in Unix seconds.
//
//	PK                          SK                          one item for each
//	SOLVE#{order}               META                        record
//	SOLVE#{task}                META                        provider's task: a copy of its record
//	SITE#{sitekey}              SOLVE#{timestamp}#{order}   record that has a site key: a copy
//	STATS#{date}                TYPE#{type}                 day and type: its figures
//	STATS#{date}                TARGET#{target}#{owner}     day, target and owner: its figures
//	ACTIVE#{order}              TASK                        order under way
//	KEY#{key}                   {timestamp}#{entry}         entry of the audit
//	STATS#{date}                KEY#{key}                   day and key: the key's figures
//
// A timestamp is the end of the order (of an active one its submit) in UTC and in milliseconds,
// 2026-01-02T03:04:05.678Z, so that texts sort as times do. In the index are the records, under STATUS#solved and
// STATUS#error, and the active orders, under STATUS#polling, each with the sort key {timestamp}#{order}.
//
// A record has the attributes that record.go lists, without empty ones. The figures of a day are:
//
//	total_solves                records: the sum of the next three
//	successful                  solved records
//	refused                     refused records: nothing was bought
//	failed                      other records; discarded and lost are parts of them
//	total_elapsed               milliseconds, of solved and discarded records
//	spent                       billionths of the currency
//
// An entry has the attributes key, action, target, token, source, image and price, and is in no index; the figures of
// a key are handed_out, bought, accepted, rejected and spent. They have a ttl, unlike those by type and by target.
//
// # Counting once
//
// One transaction puts records, on condition that they are new, and adds to the figures of their day. If DynamoDB cancels
// it because some records exist, the store repeats it with the others. So each record counts exactly once, whatever is
// repeated or crashes. The copies by site and by task are put afterwards, also for a record that existed, because its
// writer may have crashed in between. Putting a copy twice changes nothing.
//
// The item of a task has the attribute order, the ID of the record. If two services use one task id, the last written
// record has the item. A task whose id has the form of an order's ID has no item, so that it never replaces that order's.
// Entries of the audit are put in the same way.
//
// A transaction holds 100 items. Records are sorted by day, type and target, and entries by day and key, before they
// are cut into transactions, so that each moves few figures.
//
// All writers add to the same items of a day. DynamoDB cancels a transaction that meets another one at an item, and
// the store repeats it after a short random delay. Records that end meanwhile join the sender's next batch, so that
// the number of transactions falls as the load rises. contention_test.go measures that.
//
// Earlier versions spread the figures of a day over STATS#{date}#shard0 to shard9, where failed includes refused.
// Reads add these items to STATS#{date}.
//
// # Cost
//
// A record of up to 1 KB takes 2 write units for itself in its transaction, 1 in the index, 1 for its site and 1 for
// its task. Each type, and each target with its owner, of a transaction takes 2. So a record that is written alone
// takes 9, one of a hundred of few targets little above 5. An active order takes 2 to be put and 2 to be removed,
// unless the operator leaves these items out. An order that ends within five seconds of its submit is seldom put
// (history.Mirror). An entry of the audit takes 2, and each key of a transaction 2: 4 alone, little above 2 in a
// hundred.
//
// # Reading
//
// Reads are eventually consistent. They skip expired items, which DynamoDB deletes hours or days late, and other
// programs' items, which lack the attributes of a record.
package dynamostore
