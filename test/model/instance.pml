/* An instance: the life of its shard (keeper.go, takeover.go, loading.go) and its write path (writer.go, decide.go,
 * settle.go). */

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

inline fly(k_) { net[k_].state = FLYING; net[k_].landed = 0 }

/* takeover.go: takeOver */
inline takeOver(i) {
	findFree();
	net[f].from = i; net[f].waits = TENURE; net[f].takeover = 1; net[f].n = 1;
	fly(f);
	printf("%c sends a takeover\n", name(i))
}

/* decide.go: messages that are not stored become one batch, which names the next offsets. */
inline send(i, first_, n_) {
	findFree();
	net[f].from = i; net[f].waits = TENURE; net[f].n = n_; net[f].first = first_;
	net[f].serial = count(i) + 1; net[f].base = inst[i].next;
	fly(f);
	printf("%c sends a batch that names offset %d: %d messages, first %c with serial %d\n", name(i),
		passed + inst[i].next, n_, letter(first_), count(i) + 1)
}

/* writer.go: write. The identical batch again. */
inline again(i, k_) {
	printf("%c has no answer and sends the batch again\n", name(i));
#ifdef NEW_BATCH_ON_RETRY
	net[k_].base = end;
	printf("... but it names offset %d now\n", passed + end);
#endif
	net[k_].unclear = 1;
	fly(k_)
}

/* ---- Answers ---------------------------------------------------------------------------------------------------- */

/* local/fold.go: apply what lies in the log up to an offset. */
inline applyUpTo(i, upTo) {
	o = inst[i].next;
	do
	:: o < upTo ->
		if
		:: isMessage(log[o]) && idOf(log[o]) == 0 -> inst[i].x = serialOf(log[o])
		:: isMessage(log[o]) && idOf(log[o]) == 1 -> inst[i].y = serialOf(log[o])
		:: else
		fi;
		o++
	:: else -> break
	od;
	inst[i].next = upTo
}

/* keeper.go: serve. The takeover is acknowledged: load up to it, and open. Loading reads what does not change any
 * more and is seen by nobody, so it is one step with the opening. */
inline loadAndOpen(i, k_) {
	assert(log[net[k_].landed] == TAKEOVER(i));
	printf("%c hears that its takeover landed at %d, loads up to it and opens\n", name(i), passed + net[k_].landed);
	inst[i].phase = OPEN;
	inst[i].lease = (owner == i); /* heartbeats succeed as long as the group has not given it up */
#ifdef OPEN_EARLY
	inst[i].next = net[k_].landed + 1;
#else
	inst[i].x = pastX; inst[i].y = pastY;
	applyUpTo(i, net[k_].landed + 1);
#endif
	free(k_)
}

/* settle.go: judgeGap. until: what is judged lies below. hits: records of the batch that counted. cut: a record counts
 * that is not of this batch. To an ended tenure that happens when the same process has taken over again, and it answers
 * "unknown"; to the current one it would mean that this is another log. */
inline judgeGap(i, k_) {
	hits = 0; fenced = 0; cut = 0; until = net[k_].base;
	do
	:: until < net[k_].landed + net[k_].n && !fenced && !cut ->
		if
#ifndef NO_FENCE
		:: isTakeover(log[until]) && log[until] != TAKEOVER(i) -> fenced = 1
#endif
		:: isMessage(log[until]) ->
			r = until - net[k_].base;
			if
			:: r < net[k_].n && log[until] == MESSAGE(i, net[k_].first ^ r, net[k_].serial + r) ->
				hits = hits | (1 << r); until++
			:: else ->
				assert(net[k_].waits == ENDED); /* FALSE ALARM: A RECORD OF SOMEBODY ELSE */
				cut = 1
			fi
		:: else -> until++
		fi
	:: else -> break
	od;
	if
	:: fenced -> printf("%c reads the gap and finds a foreign takeover at %d\n", name(i), passed + until)
	:: else
	fi
}

/* writer.go: acknowledged, apply */
inline acknowledged(i, k_) {
	printf("%c hears that its batch landed at %d\n", name(i), passed + net[k_].landed);
	assert(net[k_].landed >= net[k_].base); /* FALSE ALARM: TRUNCATED */
	if
	:: net[k_].landed == net[k_].base -> hits = 3; until = net[k_].base + net[k_].n
#ifdef NO_GAP
	:: else -> hits = 3; until = net[k_].landed + net[k_].n
#else
	:: else -> judgeGap(i, k_)
#endif
	fi;
	if
#ifdef ENDED_APPLIES
	:: net[k_].waits == ENDED && inst[i].phase == OPEN -> applyUpTo(i, until); checkFold(i)
#endif
	:: net[k_].waits == TENURE -> applyUpTo(i, until); checkFold(i) /* tenure.go: commit */
	:: else
	fi;
	r = 0;
	do
	:: r < net[k_].n && cut -> printf("%c answers: the outcome is unknown\n", name(i)); break
	:: r < net[k_].n && !cut ->
		if
		:: hits & (1 << r) -> answerStored(i, net[k_].first ^ r, net[k_].serial + r)
		:: else -> answerNotStored(i, k_, r)
		fi;
		r++
	:: else -> break
	od;
	if
	:: net[k_].waits == TENURE && inst[i].phase == DRAIN -> inst[i].phase = IDLE; forget(i)
	:: net[k_].waits == TENURE && inst[i].phase == OPEN && fenced -> inst[i].phase = FENCED; forget(i)
	:: else
	fi;
	free(k_)
}

inline notStored(i, k_) {
	r = 0;
	do
	:: r < net[k_].n -> answerNotStored(i, k_, r); r++
	:: else -> break
	od
}

inline unknown(i, k_) {
#ifdef NOT_OWNED_AFTER_SENT
	notStored(i, k_)
#else
	printf("%c answers: the outcome is unknown\n", name(i))
#endif
}

/* Does the tenure that waits for net[k] go on? If not, the end of its batch is the end of a drain. */
#define goesOn(i) (net[k].waits == TENURE && inst[i].phase == OPEN)
inline drained(i, k_) {
	if
	:: net[k_].waits == TENURE && inst[i].phase == DRAIN -> inst[i].phase = IDLE; forget(i)
	:: else
	fi
}

/* ---- What may happen next --------------------------------------------------------------------------------------- */

#define mine(j) (net[j].state != FREE && net[j].from == i && net[j].waits != NOBODY)

proctype Keeper(bit i) {
	do
	:: atomic {
		if
		:: d_step { inst[i].phase == TAKING && !waiting(i) && roomInNet -> takeOver(i) }

		/* writer.go: run. One batch at a time, and none begins without a valid lease */
		:: holds(i) && !waiting(i) && count(i) < 2 && roomInNet ->
			if
			:: inst[i].x == 0 -> d_step { send(i, 0, 1) }
			:: inst[i].y == 0 -> d_step { send(i, 1, 1) }
			:: count(i) == 0 -> d_step { send(i, 0, 2) }
			:: count(i) == 0 -> d_step { send(i, 1, 2) }
			fi

		:: d_step { /* room.go: read. writer.go: reply, the answer to a client that asks again for what is stored */
			holds(i) ->
			printf("%c answers a read: x has serial %d, y has %d\n", name(i), inst[i].x, inst[i].y);
			checkAnswer(i);
			if :: inst[i].x > 0 -> answerStored(i, 0, inst[i].x) :: else fi;
			if :: inst[i].y > 0 -> answerStored(i, 1, inst[i].y) :: else fi
		}

		/* A request of this instance gets its answer, or none in time. */
		:: waiting(i) || waitsEnded(i) ->
			if
			pick(mine)
			fi;
			if
			:: net[k].takeover && net[k].state == LANDED -> d_step { loadAndOpen(i, k) }
			:: net[k].takeover -> d_step { printf("%c has no answer to its takeover, which may be late\n", name(i)); abandon(k) }

			:: !net[k].takeover && net[k].state == LANDED -> d_step { acknowledged(i, k) }

			/* writer.go: unacknowledged. No answer in time: the request is lost, or its answer is, */
			:: !net[k].takeover && goesOn(i) -> d_step { again(i, k) }
			/* or it is late. */
			:: !net[k].takeover && goesOn(i) && net[k].state == FLYING && roomInNet -> d_step {
				findFree(); copy(f, k);
				printf("a request of %c is late\n", name(i));
				again(i, k)
			}
			:: !net[k].takeover && !goesOn(i) -> d_step { unknown(i, k); drained(i, k); abandon(k) }

			/* The broker refuses: this copy is not written. That speaks for no other copy. */
			:: !net[k].takeover && net[k].state == FLYING && !net[k].unclear -> d_step {
				printf("the broker refuses the batch of %c, the only copy\n", name(i));
				notStored(i, k); drained(i, k); free(k)
			}
#ifdef LAST_REFUSAL_DECIDES
			:: !net[k].takeover && net[k].state == FLYING && net[k].unclear -> d_step {
				printf("the broker refuses a copy of %c's batch\n", name(i));
				notStored(i, k); drained(i, k); free(k)
			}
#endif
			/* It never will be written, so the next takeover settles it (errUnsettled). */
			:: !net[k].takeover && net[k].state == FLYING && net[k].unclear && goesOn(i) -> d_step {
				printf("the broker refuses a copy of %c's batch for good\n", name(i));
				unknown(i, k); free(k); forget(i); inst[i].phase = TAKING
			}
			fi

		:: d_step { /* keeper.go: run. Fenced; a heartbeat sent after that succeeds */
			inst[i].phase == FENCED && owner == i ->
			inst[i].phase = TAKING;
			printf("%c asks the group, is still the owner, and takes over again\n", name(i))
		}
		:: d_step { /* keeper.go: run. The local store failed, or the broker refused for good */
			inst[i].phase == OPEN && !waiting(i) ->
			forget(i); inst[i].phase = TAKING;
			printf("%c locks its shard, drops its local data and takes over again\n", name(i))
		}
		fi;
		d_step { tidy() }
	}
	od
}
