# cython: language_level=3, auto_pickle=False, autotestdict=False
"""What a search wants of records, for functions that pass many batches."""

from cython cimport final
from libc.stdint cimport INT64_MAX, INT64_MIN

from storage.record.kernel cimport wire


@final
cdef class Criteria:
    """The records from `first_offset` up to `end_offset`, excluded, that have all that is given.

    `key` is the key's bytes, in a tuple of one so that it may be None for no key. `header` is a header's name and its
    value, in the same way; a record with several of that name matches by any of them. A null value has -1 bytes.
    `of_transactions` wants the records of transactions alone. Frozen.
    """

    def __init__(
        self,
        first_offset=INT64_MIN,
        end_offset=INT64_MAX,
        *,
        tuple key=(),
        header_name=None,
        tuple header_value=(),
        value_bytes_min=-1,
        value_bytes_max=INT64_MAX,
        producer_id=None,
        bint of_transactions=False,
    ):
        cdef bytes wanted
        self.wanted.first_offset = first_offset
        self.wanted.end_offset = end_offset
        self.wanted.value_bytes_min = value_bytes_min
        self.wanted.value_bytes_max = value_bytes_max
        self.wanted.of_any_producer = producer_id is None
        self.wanted.producer_id = wire.NO_PRODUCER if producer_id is None else producer_id
        self.wanted.of_transactions = of_transactions
        self.owners = (key, header_name, header_value)
        self.wanted.key_size = self.wanted.header_name_size = self.wanted.header_value_size = ANY
        if key:
            self.wanted.key_size = NULL_WANTED if key[0] is None else len(key[0])
            if key[0] is not None:
                wanted = key[0]
                self.wanted.key = wanted
        if header_name is not None:
            wanted = header_name
            self.wanted.header_name, self.wanted.header_name_size = wanted, len(wanted)
        if header_value:
            self.wanted.header_value_size = NULL_WANTED if header_value[0] is None else len(header_value[0])
            if header_value[0] is not None:
                wanted = header_value[0]
                self.wanted.header_value = wanted
