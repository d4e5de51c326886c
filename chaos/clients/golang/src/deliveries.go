package main

// deliver writes the rows of processed records of one partition. A record counts as processed when its row is written.
func (a *Assignments) deliver(partition Partition, records []*Record, polledUs int64) {
	count := len(records)
	offsets, seqs, sent := make([]int64, count), make([]int64, count), make([]int64, count)
	producers, incarnations := make([]*string, count), make([]int64, count)
	var known identities
	for i, record := range records {
		offsets[i], seqs[i], sent[i], incarnations[i] = record.Offset, missing, missing, missing
		if identity, found := known.of(record.Value); found {
			seqs[i], sent[i] = identity.seq, identity.sentUs
			producers[i], incarnations[i] = identity.producer, identity.incarnation
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ordinals := make([]int64, count)
	for i := range ordinals {
		ordinals[i] = a.delivered + int64(i)
	}
	a.deliveries.write(a.batch().
		int("assignment", a.lastNumbers[partition]).
		ints("ordinal", ordinals).
		put("topic", partition.topic).
		put("partition", partition.number).
		ints("offset", offsets).
		foldedTexts("producer", producers).
		foldedInts("producer_incarnation", incarnations).
		ints("seq", seqs).
		ints("sent_us", sent).
		int("polled_us", polledUs).
		int("processed_us", nowUs()))
	a.delivered += int64(count)
	a.positions[partition] = offsets[count-1] + 1
}
