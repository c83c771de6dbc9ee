PICK = {}
RUN = {}
