"""One record's life: who sent it, which replica appended it when, when it was committed, shown or cut, what is left."""
