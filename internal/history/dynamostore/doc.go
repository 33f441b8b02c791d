// Package dynamostore keeps the history in one table of Amazon DynamoDB. Other programs may query
// this table. The keys of the table are PK and SK. The keys of its index GSI1, which projects all
// attributes, are GSI1PK and GSI1SK. The attribute ttl is the time when an item expires, in Unix
// seconds.
//
//	PK                          SK                          one item for each
//	SOLVE#{order}               META                        record
//	SOLVE#{task}                META                        provider's task: a copy of its record
//	SITE#{sitekey}              SOLVE#{timestamp}#{order}   record that has a site key: a copy
//	STATS#{date}                TYPE#{type}                 day and type: its figures
//	STATS#{date}                TARGET#{target}#{owner}     day, target and owner: its figures
//	ACTIVE#{order}              TASK                        order in flight
//	KEY#{key}                   {timestamp}#{entry}         entry of the audit
//	STATS#{date}                KEY#{key}                   day and key: the key's figures
//
// A timestamp is the time at which an order ended. For an order in flight, it is the time of the
// submission. It is in UTC and in milliseconds, such as 2026-01-02T03:04:05.678Z, so that timestamps
// sort as times do. The index contains the records, under STATUS#solved and STATUS#error, and the
// orders in flight, under STATUS#polling. Their sort key in the index is {timestamp}#{order}.
//
// The attributes of a record's item are the columns of history.Record.Columns, without the empty
// columns. The figures of a day are:
//
//	total_solves                all records: the sum of the next three figures
//	successful                  solved records
//	refused                     refused records: nothing was bought
//	failed                      all other records; the figures discarded and lost count parts of them
//	total_elapsed               milliseconds from submission to end, over solved and discarded records
//	spent                       sum of the known prices, in billionths of the currency
//
// An entry has the attributes key, action, target, token, source, image and price. It is in no index.
// The figures of a key are handed_out, bought, accepted, rejected and spent. The figures by key expire.
// The figures by type and by target do not expire.
//
// # Counting once
//
// One transaction puts records, on condition that they are new, and adds them to the figures of their
// day. If DynamoDB cancels the transaction because some records exist, the store repeats the
// transaction without these records. So each record counts exactly once, in spite of retries and
// crashes. After the transaction the store puts the copies by site and by task. For a record that
// already existed, the store puts these copies too, because the writer of that record may have crashed
// before it put the copies. Putting a copy twice changes nothing.
//
// The item of a task has the attribute order, which contains the ID of the record. If two services use
// the same task id, the item contains the record that was written last. A task id in the form of an
// order's ID gets no item, because this item would replace the record of that order.
//
// The store writes audit entries in the same way: one transaction puts new entries and adds them to the
// figures of their keys.
//
// A transaction has at most 100 items. Before the store cuts a batch into transactions, it sorts records by day, type
// and target, and entries by day and key, so that each transaction updates few items of figures.
//
// All writers add to the same items of a day. DynamoDB cancels a transaction if another transaction
// uses one of its items. The store then repeats the transaction after a short random delay. Records
// that end during the delay join the sender's next batch, so batches become larger as the load rises.
// The test in contention_test.go measures this.
//
// # Cost
//
// A record of up to 1 KB costs 5 write units: 2 for its item in the transaction, 1 in the index, 1 for
// the copy by site and 1 for the copy by task. A transaction also costs 2 units for each type, and 2
// for each pair of target and owner. So a single record in a transaction costs 9 units. In a batch of a
// hundred records of few targets, each record costs little more than 5 units.
//
// The item of an order in flight costs 2 units when it is put and 2 units when it is removed, unless
// the operator turns these items off. An order that ends before history.Sender has read its purchase
// gets no item.
//
// An audit entry costs 2 units, and a transaction costs 2 units for each key. So a single entry in a
// transaction costs 4 units. In a batch of a hundred entries of few keys, each entry costs little
// more than 2 units.
//
// # Reading
//
// Reads are eventually consistent. They skip expired items, because DynamoDB deletes expired items
// hours or days late. They also skip the items of other programs, which lack the attributes of a
// record.
package dynamostore
