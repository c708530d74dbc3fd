/* What must always hold. Numbers are those of docs/GUARANTEES.md. broker.pml holds the rest: what may count. */

/* The fold of the log below an offset, as any reader computes it (local/fold.go), into foldX and foldY. */
inline fold(below) {
	foldX = pastX; foldY = pastY; o = 0;
	do
	:: o < below ->
		if
		:: isMessage(log[o]) && idOf(log[o]) == 0 -> foldX = serialOf(log[o])
		:: isMessage(log[o]) && idOf(log[o]) == 1 -> foldY = serialOf(log[o])
		:: else
		fi;
		o++
	:: else -> break
	od
}
#define folded(m_) ((m_) == 0 -> foldX : foldY)

/* 7, 8: the local store is the fold of the log up to its position. */
inline checkFold(i) {
	fold(inst[i].next);
	assert(inst[i].x == foldX && inst[i].y == foldY) /* LOCAL DATA DIFFER FROM THE LOG */
}

#define out(i, j) (net[j].state != FREE && net[j].from == i && net[j].waits == TENURE && o - net[j].base < net[j].n && \
	log[o] == MESSAGE(i, net[j].first ^ (o - net[j].base), net[j].serial + o - net[j].base))

/* 1, 6: who answers from its local store has every message that counts, with its serial, but for a batch of its own
 * that is still out: so also every message that anybody was told is stored. Nobody else may answer. */
inline checkAnswer(i) {
	checkFold(i);
	assert(!holds(other(i))); /* TWO INSTANCES MAY ANSWER */
	o = inst[i].next;
	do
	:: o < end ->
		assert(!isMessage(log[o]) || out(i, 0) || out(i, 1) || out(i, NET - 1) || (NET > 3 && out(i, 2))); /* AN ANSWER MISSES A STORED MESSAGE */
		o++
	:: else -> break
	od
}
/* 1: a client is told "stored, with this serial": the record is in the log, counts, and says so. The log never changes
 * and no message counts twice, so every later reader has it with this serial. */
inline answerStored(i, m_, s_) {
	fold(end);
	assert(folded(m_) == (s_)); /* ACKNOWLEDGED BUT NOT IN THE LOG */
	printf("%c answers: message %c is stored, serial %d\n", name(i), letter(m_), s_)
}

/* 3: a client is told "not stored" for record r_ of the batch in net[k_]. It does not count, and no copy of it ever
 * will (broker.pml looks at no). Where the product decides a command again, which rests on the same promise, the model
 * says "not stored" and a client may try again. */
inline answerNotStored(i, k_, r_) {
	assert(net[k_].base == NEVER || net[k_].base + r_ >= end ||
		log[net[k_].base + r_] != MESSAGE(i, net[k_].first ^ r_, net[k_].serial + r_)); /* "NOT STORED", BUT IT COUNTS */
	g = 0;
	do
	:: g < NET ->
		if
		:: net[g].state != FREE && !net[g].takeover && net[g].from == i && net[g].base == net[k_].base ->
			net[g].no = net[g].no | (1 << r_)
		:: else
		fi;
		g++
	:: else -> break
	od;
	printf("%c answers: this attempt to store message %c left nothing in the log\n", name(i), letter(net[k_].first ^ r_))
}
